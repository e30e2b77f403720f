// The rotation of a part, written once over `Lanes` and compiled for each of them.
//
// A pair (a, b) becomes (a cos - b sin, b cos + a sin): two products and one sum, each rounded
// (no fused multiply-add), so that every instruction set gives the bits of the torch reference.
#pragma once

#include "abi.h"
#include "numbers.h"
#include "rotary_part.h"

namespace {

template <class T, class Table>
struct Row {
    const T* x;
    T* out;
    const Table* cos;
    const Table* sin;
    int64_t pairs;
    Table sign;  // -1 rotates back
};

// Pairs from `first` on, one at a time; a channel's neighbour may be anywhere.
template <class T, class Table>
inline void rotate_plainly(const Row<T, Table>& row, int64_t first, int64_t pair_step,
                         int64_t partner, int64_t x_step, int64_t out_step) {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
    for (int64_t i = first; i < row.pairs; ++i) {
        const int64_t a_at = i * pair_step, b_at = a_at + partner;
        const Table a = static_cast<Table>(widen(row.x[a_at * x_step]));
        const Table b = static_cast<Table>(widen(row.x[b_at * x_step]));
        const Table c = row.cos[i], s = row.sin[i] * row.sign;
        narrow(a * c - b * s, row.out[a_at * out_step]);
        narrow(b * c + a * s, row.out[b_at * out_step]);
    }
}

template <class L, class T>
inline int64_t rotate_halves(const Row<T, float>& row) {
    int64_t i = 0;
    if constexpr (L::width > 0) {
        const auto sign = L::all(row.sign);
        for (; i + L::width <= row.pairs; i += L::width) {
            const auto a = L::load(row.x + i), b = L::load(row.x + row.pairs + i);
            const auto c = L::load(row.cos + i), s = L::mul(L::load(row.sin + i), sign);
            L::store(row.out + i, L::sub(L::mul(a, c), L::mul(b, s)));
            L::store(row.out + row.pairs + i, L::add(L::mul(b, c), L::mul(a, s)));
        }
    }
    return i;
}

template <class L, class T>
inline int64_t rotate_neighbours(const Row<T, float>& row) {
    int64_t i = 0;
    if constexpr (L::width > 0) {
        const auto sign = L::all(row.sign);
        for (; i + L::width <= row.pairs; i += L::width) {
            const auto c = L::load(row.cos + i), s = L::mul(L::load(row.sin + i), sign);
            const auto low = L::load(row.x + 2 * i), high = L::load(row.x + 2 * i + L::width);
            const auto low_sin = L::mul(L::swap_pairs(low), L::low_twice(s));
            const auto high_sin = L::mul(L::swap_pairs(high), L::high_twice(s));
            L::store(row.out + 2 * i, L::sub_add(L::mul(low, L::low_twice(c)), low_sin));
            L::store(row.out + 2 * i + L::width,
                     L::sub_add(L::mul(high, L::high_twice(c)), high_sin));
        }
    }
    return i;
}

template <class L, class T, class Table>
inline void rotate_row(const Row<T, Table>& row, bool interleaved, int64_t head_dim, int64_t x_step,
                     int64_t out_step) {
    const int64_t pair_step = interleaved ? 2 : 1, partner = interleaved ? 1 : row.pairs;
    if (x_step == 1 && out_step == 1) {
        int64_t done = 0;
        if constexpr (sizeof(Table) == sizeof(float))
            done = interleaved ? rotate_neighbours<L>(row) : rotate_halves<L>(row);
        if (done == row.pairs) {
        } else if (interleaved) {
            rotate_plainly(row, done, 2, 1, 1, 1);
        } else {
            rotate_plainly(row, done, 1, row.pairs, 1, 1);
        }
    } else {
        rotate_plainly(row, 0, pair_step, partner, x_step, out_step);
    }
    if (row.x != row.out)
        for (int64_t i = 2 * row.pairs; i < head_dim; ++i) row.out[i * out_step] = row.x[i * x_step];
}

// Memory is walked in its own order.
template <class L, class T, class Table>
void rotate_part(const RotaryRequest& request, const RotaryOperand& o, const RotaryPart& part) {
    const T* x = reinterpret_cast<const T*>(o.x) + part.batch * o.x_stride[0];
    T* out = reinterpret_cast<T*>(o.out) + part.batch * o.out_stride[0];
    const Table* cos = reinterpret_cast<const Table*>(o.cos) + part.batch * o.table_stride[0];
    const Table* sin = reinterpret_cast<const Table*>(o.sin) + part.batch * o.table_stride[0];
    const Table sign = request.inverse ? Table(-1) : Table(1);
    const bool interleaved = request.layout == INTERLEAVED;
    const auto rotate = [&](int64_t head, int64_t at) {
        const Row<T, Table> row{x + head * o.x_stride[1] + at * o.x_stride[2],
                                out + head * o.out_stride[1] + at * o.out_stride[2],
                                cos + at * o.table_stride[1],
                                sin + at * o.table_stride[1],
                                request.pairs,
                                sign};
        rotate_row<L>(row, interleaved, o.head_dim, o.x_stride[3], o.out_stride[3]);
    };
    for (int64_t at = part.first; at < part.last; ++at)
        for (int64_t head = part.head; head < part.last_head; ++head) rotate(head, at);
}

template <class L>
void rotate_block(const RotaryRequest& request, const RotaryOperand& operand,
                const RotaryPart& part) {
    switch (request.dtype) {
        case FLOAT32: return rotate_part<L, float, float>(request, operand, part);
        case BFLOAT16: return rotate_part<L, Bf16, float>(request, operand, part);
        case FLOAT16: return rotate_part<L, Half, float>(request, operand, part);
        case FLOAT64:
            if constexpr (L::width == 0)
                rotate_part<L, double, double>(request, operand, part);
            return;
    }
}

}  // namespace
