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

// Where the sum over the tokens of a row goes.
enum Place : int64_t {
    PACKED = 0,     // to row g of `out`, for the g-th row that was looked up
    SCATTERED = 1,  // to that row of `out` itself
    STEP = 2,       // subtracted from that row, times the learning rate
};

// The tokens grouped by id: those of row touched[g] are order[starts[g]] .. order[starts[g + 1]].
struct SumRequest {
    int64_t threads;
    Rows grad, out;
    int64_t order, starts, touched;  // addresses of int64
    int64_t groups, width, place;
    double scale, rate;
};
