// What Python and the library agree on for nearest rows; 64-bit words only, as in abi.h.
#pragma once

#include "embedding.h"

// Cosines of every row with `count` queries of length 1, and every row's sum of squares.
struct NearRequest {
    int64_t threads;
    Rows rows;
    int64_t queries;          // address of float (count, width), without gaps
    int64_t count, width;
    int64_t scores, squares;  // addresses of float (count, rows.count) and (rows.count)
};
