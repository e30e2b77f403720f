// The embedding loops, written once over `Lanes` and compiled for each of them.
//
// Products and sums are fp32, each rounded to the tensor's dtype exactly where torch's own chain
// of operators rounds: every instruction set gives the bits of the torch reference.
#pragma once

#include "embedding.h"
#include "numbers.h"

namespace {

constexpr int LINES_AHEAD = 16;    // of 64 bytes, fetched early; hardware finds the rest of a row

template <class T>
inline T* row_of(const Rows& rows, int64_t index) {
    return reinterpret_cast<T*>(rows.data) + index * rows.stride;
}

inline void fetch_ahead(const void* row) {
    const char* line = static_cast<const char*>(row);
    for (int i = 0; i < LINES_AHEAD; ++i) __builtin_prefetch(line + 64 * i);
}

inline bool outside(int64_t index, int64_t count) {
    return static_cast<uint64_t>(index) >= static_cast<uint64_t>(count);
}

template <class T>
inline float rounded(float value) {
    T narrowed;
    narrow(value, narrowed);
    return widen(narrowed);
}

// Values as they would be after a stay in memory as T.
template <class L, class T, class Floats>
inline Floats rounded_lanes(Floats value) {
    if constexpr (sizeof(T) == sizeof(float)) return value;
    T narrowed[L::width];
    L::store(narrowed, value);
    return L::load(narrowed);
}

// Stores that do not fetch what they overwrite, for fp32; others go the usual way.
template <class L, class T, class Floats>
inline void store_past_caches(T* to, Floats value) {
    L::store(to, value);
}
#if defined(__AVX512F__)
template <class L>
inline void store_past_caches(float* to, __m512 value) { _mm512_stream_ps(to, value); }
#elif defined(__AVX2__)
template <class L>
inline void store_past_caches(float* to, __m256 value) { _mm256_stream_ps(to, value); }
#endif

template <class L, bool PAST, class T, class P>
inline void place_row(T* out, const T* row, const P* added, float scale, int64_t width) {
    int64_t i = 0;
    if constexpr (L::width > 0) {
        const auto factor = L::all(scale);
        for (; i + L::width <= width; i += L::width) {
            auto x = L::mul(L::load(row + i), factor);
            if (added) x = L::add(rounded_lanes<L, T>(x), L::load(added + i));
            if constexpr (PAST) {
                store_past_caches<L>(out + i, x);
            } else {
                L::store(out + i, x);
            }
        }
    }
    for (; i < width; ++i) {
        float x = widen(row[i]) * scale;
        if (added) x = rounded<T>(x) + widen(added[i]);
        narrow(x, out[i]);
    }
}

// Tokens at, at + period, at + 2 period...: they share an added row, which stays near meanwhile.
// Whether all of them name rows that are there; those that do not are left out.
template <class L, bool PAST, class T, class P>
bool place_column(const LookupRequest& r, int64_t at) {
    const int64_t* ids = reinterpret_cast<const int64_t*>(r.ids);
    const P* added = nullptr;
    if (r.added.data) {
        const int64_t row = r.positions ? reinterpret_cast<const int64_t*>(r.positions)[at] : at;
        if (outside(row, r.added.count)) return false;
        added = row_of<const P>(r.added, row);
    }
    bool found = true;
    for (int64_t i = at; i < r.count; i += r.period) {
        const int64_t next = i + r.period < r.count ? i + r.period : at + 1;
        if (next < r.count && !outside(ids[next], r.table.count))
            fetch_ahead(row_of<const T>(r.table, ids[next]));
        if (outside(ids[i], r.table.count)) {
            found = false;
            continue;
        }
        place_row<L, PAST>(row_of<T>(r.out, i), row_of<const T>(r.table, ids[i]), added,
                           static_cast<float>(r.scale), r.width);
    }
    return found;
}

template <class L, class T, class P>
bool place_columns(const LookupRequest& r, int64_t first, int64_t last) {
    // A store past the caches takes whole aligned vectors.
    const bool past = r.past_caches && r.out.data % 64 == 0 && r.out.stride % 16 == 0;
    bool found = true;
    for (int64_t at = first; at < last; ++at) {
        found = (past ? place_column<L, true, T, P>(r, at) : place_column<L, false, T, P>(r, at)) &&
                found;
    }
#if defined(__AVX2__)
    if (past) _mm_sfence();
#endif
    return found;
}

template <class L, class T>
bool lookup_typed(const LookupRequest& r, int64_t first, int64_t last) {
    return r.added.dtype == FLOAT32 ? place_columns<L, T, float>(r, first, last)
                                    : place_columns<L, T, T>(r, first, last);
}

template <class L>
bool lookup_block(const LookupRequest& r, int64_t first, int64_t last) {
    switch (r.table.dtype) {
        case BFLOAT16: return lookup_typed<L, Bf16>(r, first, last);
        case FLOAT16: return lookup_typed<L, Half>(r, first, last);
        default: return lookup_typed<L, float>(r, first, last);
    }
}

}  // namespace
