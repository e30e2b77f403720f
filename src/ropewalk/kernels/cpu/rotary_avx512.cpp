#include "lanes_avx512.h"
#include "rotary_rows.h"

void rotary_block_avx512(const RotaryRequest& request, const RotaryOperand& operand,
                       const RotaryPart& part) {
    rotate_block<Lanes>(request, operand, part);
}
