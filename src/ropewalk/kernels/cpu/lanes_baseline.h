// Lanes of one value, which compilers widen to what every processor of this kind has.
#pragma once

#include "numbers.h"

namespace {

struct Lanes {
    static constexpr int64_t width = 0;  // no vectors written out: the plain loop takes all
};

}  // namespace
