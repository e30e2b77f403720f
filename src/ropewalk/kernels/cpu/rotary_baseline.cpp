#include "lanes_baseline.h"
#include "rotary_rows.h"

void rotary_block_baseline(const RotaryRequest& request, const RotaryOperand& operand,
                       const RotaryPart& part) {
    rotate_block<Lanes>(request, operand, part);
}
