// Products of stored rows with a few queries, written once over `Lanes` and compiled for each.
//
// A row's sums are made in one order, whichever rows are beside it: equal rows get equal scores.
#pragma once

#include <algorithm>
#include <cmath>

#include "near.h"
#include "numbers.h"

namespace {

constexpr int64_t CACHE_LINE = 64;
constexpr int64_t AHEAD_BYTES = 8 << 10;  // how far ahead of its use memory is asked for, at least

template <class T>
struct Block {
    const T* rows;
    int64_t stride;
    const float* queries;
    int64_t width;
    int64_t ahead;                     // bytes from a row to what is fetched meanwhile,
    int64_t first_ahead, last_ahead;  // for these of the R rows
};

// Sums of R rows by Q queries, and their squares where those are asked for.
template <int R, int Q>
struct Sums {
    float products[R][Q];
    float squares[R];
};

// Lanes of an array, which compilers make vectors of.
template <int R, int Q, bool Squares, class T>
inline void sum_plainly(const Block<T>& b, int64_t first, Sums<R, Q>& sums) {
    constexpr int64_t LANES = 16;
    for (int r = 0; r < R; ++r) {
        const T* row = b.rows + r * b.stride;
        float products[Q][LANES] = {}, squares[LANES] = {};
        int64_t i = first;
        for (; i + LANES <= b.width; i += LANES) {
            float x[LANES];
            for (int64_t j = 0; j < LANES; ++j) x[j] = widen(row[i + j]);
            for (int q = 0; q < Q; ++q)
                for (int64_t j = 0; j < LANES; ++j)
                    products[q][j] += x[j] * b.queries[q * b.width + i + j];
            if (Squares)
                for (int64_t j = 0; j < LANES; ++j) squares[j] += x[j] * x[j];
        }
        for (; i < b.width; ++i) {
            const float x = widen(row[i]);
            for (int q = 0; q < Q; ++q) products[q][0] += x * b.queries[q * b.width + i];
            if (Squares) squares[0] += x * x;
        }
        for (int64_t j = 0; j < LANES; ++j) {
            for (int q = 0; q < Q; ++q) sums.products[r][q] += products[q][j];
            if (Squares) sums.squares[r] += squares[j];
        }
    }
}

// Asks for the lines of STEP values that lie `ahead` bytes further on.
template <int64_t STEP, class T>
inline void fetch(const T* at, int64_t ahead) {
    const char* next = reinterpret_cast<const char*>(at) + ahead;
    for (int64_t byte = 0; byte < STEP * static_cast<int64_t>(sizeof(T)); byte += CACHE_LINE)
        __builtin_prefetch(next + byte);
}

template <class L, int C>
inline float folded(const typename L::Floats (&chains)[C]) {
    auto sum = chains[0];
    for (int c = 1; c < C; ++c) sum = L::add(sum, chains[c]);
    return L::sum(sum);
}

// A row's sum is made in C chains, so that where rows and queries are few, one addition need not
// wait for the other.
template <class L, int R, int Q, int C, bool Squares, class T>
inline Sums<R, Q> sums_of(const Block<T>& b) {
    Sums<R, Q> sums = {};
    int64_t i = 0;
    if constexpr (L::width > 0) {
        constexpr int64_t STEP = C * L::width;
        typename L::Floats products[R][Q][C], squares[R][C];
        for (int r = 0; r < R; ++r)
            for (int c = 0; c < C; ++c) {
                squares[r][c] = L::all(0.0f);
                for (int q = 0; q < Q; ++q) products[r][q][c] = L::all(0.0f);
            }
        for (; i + STEP <= b.width; i += STEP) {
            for (int64_t r = b.first_ahead; r < b.last_ahead; ++r)
                fetch<STEP>(b.rows + r * b.stride + i, b.ahead);
            for (int c = 0; c < C; ++c) {
                typename L::Floats x[R];
                for (int r = 0; r < R; ++r) {
                    x[r] = L::load(b.rows + r * b.stride + i + c * L::width);
                    if (Squares) squares[r][c] = L::fma(x[r], x[r], squares[r][c]);
                }
                for (int q = 0; q < Q; ++q) {
                    const auto y = L::load(b.queries + q * b.width + i + c * L::width);
                    for (int r = 0; r < R; ++r)
                        products[r][q][c] = L::fma(x[r], y, products[r][q][c]);
                }
            }
        }
        for (int r = 0; r < R; ++r) {
            sums.squares[r] = folded<L, C>(squares[r]);
            for (int q = 0; q < Q; ++q) sums.products[r][q] = folded<L, C>(products[r][q]);
        }
    }
    if (i < b.width) sum_plainly<R, Q, Squares>(b, i, sums);
    return sums;
}

// R rows from `row` on with Q queries from `query` on; squares are made with the first queries.
template <class L, int R, int Q, int C, class T>
inline void score(const NearRequest& request, int64_t row, int64_t query) {
    float* squares = reinterpret_cast<float*>(request.squares) + row;
    float* scores = reinterpret_cast<float*>(request.scores) + query * request.rows.count + row;
    const int64_t stride = request.rows.stride;
    // Every walk over these rows fetches its share of the next, so that none waits for memory.
    const int64_t walks = (request.count + Q - 1) / Q, walk = query / Q;
    const Block<T> block{reinterpret_cast<const T*>(request.rows.data) + row * stride, stride,
                         reinterpret_cast<const float*>(request.queries) + query * request.width,
                         request.width,
                         std::max<int64_t>(AHEAD_BYTES, R * stride * sizeof(T)),
                         R * walk / walks, std::min<int64_t>(R, R * (walk + 1) / walks)};
    const Sums<R, Q> sums = query == 0 ? sums_of<L, R, Q, C, true>(block)
                                       : sums_of<L, R, Q, C, false>(block);
    for (int r = 0; r < R; ++r) {
        if (query == 0) squares[r] = sums.squares[r];
        const float length = std::sqrt(squares[r]);
        for (int q = 0; q < Q; ++q) scores[q * request.rows.count + r] = sums.products[r][q] / length;
    }
}

template <class L, int R, class T>
inline void score_rows(const NearRequest& request, int64_t row) {
    constexpr int Q = L::width == 16 ? 4 : 2;  // what registers hold beside the rows
    int64_t query = 0;
    for (; query + Q <= request.count; query += Q) score<L, R, Q, 1, T>(request, row, query);
    for (; query < request.count; ++query) score<L, R, 1, 1, T>(request, row, query);
}

template <class L, class T>
void near_part(const NearRequest& request, int64_t first, int64_t last) {
    int64_t row = first;
    if (request.count == 1) {
        // Memory is the limit, and one stream of it the fastest.
        for (; row < last; ++row) score<L, 1, 1, 4, T>(request, row, 0);
        return;
    }
    for (; row + 4 <= last; row += 4) score_rows<L, 4, T>(request, row);
    for (; row < last; ++row) score_rows<L, 1, T>(request, row);
}

template <class L>
void near_block(const NearRequest& request, int64_t first, int64_t last) {
    switch (request.rows.dtype) {
        case FLOAT32: return near_part<L, float>(request, first, last);
        case BFLOAT16: return near_part<L, Bf16>(request, first, last);
        case FLOAT16: return near_part<L, Half>(request, first, last);
    }
}

}  // namespace
