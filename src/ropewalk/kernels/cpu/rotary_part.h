// A part of one operand: heads [head, last_head) at positions [first, last) of a row of the batch.
#pragma once

#include <cstdint>

struct RotaryPart {
    int64_t batch, head, last_head, first, last;
};
