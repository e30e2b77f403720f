// What Python and the library agree on for embeddings; 64-bit words only, as in abi.h.
#pragma once

#include "abi.h"

// `count` rows of adjacent channels, `stride` elements apart; `data` is an address, 0 for none.
struct Rows {
    int64_t data, count, stride, dtype;
};

// Token i takes row ids[i] of the table, times `scale`, plus row positions[i % period] of `added`,
// or row i % period where `positions` is 0.
struct LookupRequest {
    int64_t threads;
    Rows table, added, out;
    int64_t ids, positions;  // addresses of int64
    int64_t count, period, width;
    double scale;
    int64_t past_caches;  // 1: `out` is too large for the caches to be of use
};
