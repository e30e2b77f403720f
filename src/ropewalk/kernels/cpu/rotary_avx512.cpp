#include "lanes_avx512.h"
#include "rotary_rows.h"

void rotary_block_avx512(const RotaryRequest& request, const RotaryOperand& operand, int64_t batch,
                       int64_t first, int64_t last) {
    turn_block<Lanes>(request, operand, batch, first, last);
}
