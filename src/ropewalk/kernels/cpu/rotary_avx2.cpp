#include "lanes_avx2.h"
#include "rotary_rows.h"

void rotary_block_avx2(const RotaryRequest& request, const RotaryOperand& operand,
                       const RotaryPart& part) {
    rotate_block<Lanes>(request, operand, part);
}
