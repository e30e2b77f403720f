// Sixteen fp32 values at a time, loaded from and stored to fp32, bf16 and fp16.
#pragma once

#include <immintrin.h>

#include "numbers.h"

namespace {

struct Lanes {
    using Floats = __m512;
    static constexpr int64_t width = 16;

    static Floats all(float value) { return _mm512_set1_ps(value); }
    static Floats load(const float* from) { return _mm512_loadu_ps(from); }
    static Floats load(const Bf16* from) {
        const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)from));
        return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
    }
    static Floats load(const Half* from) {
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from));
    }

    static void store(float* to, Floats value) { _mm512_storeu_ps(to, value); }
    static void store(Bf16* to, Floats value) {
        const __m512i bits = _mm512_castps_si512(value);
        const __m512i last = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
        const __m512i up = _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff));
        const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16);
        const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
        const __m512i words = _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc0));
        _mm256_storeu_si256((__m256i*)to, _mm512_cvtepi32_epi16(words));
    }
    static void store(Half* to, Floats value) {
        _mm256_storeu_si256((__m256i*)to, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
    }

    static Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
    static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
    static Floats sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }

    static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
    static float sum(Floats v) {
        // Through memory: GCC 12 warns of its own headers where halves are taken out of registers.
        alignas(64) float held[width];
        _mm512_store_ps(held, v);
        const __m256 eight = _mm256_add_ps(_mm256_load_ps(held), _mm256_load_ps(held + 8));
        const __m128 four =
            _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    }

    // Of lanes 0 1 2 ..: 0 0 1 1 .., the upper half likewise, and 1 0 3 2 ..
    static Floats low_twice(Floats v) {
        const __m512i order = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
        return _mm512_permutexvar_ps(order, v);
    }
    static Floats high_twice(Floats v) {
        const __m512i order =
            _mm512_setr_epi32(8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
        return _mm512_permutexvar_ps(order, v);
    }
    static Floats swap_pairs(Floats v) { return _mm512_permute_ps(v, 0xb1); }
    // a - b in even lanes, a + b in odd ones; the product with 1 is exact.
    static Floats sub_add(Floats a, Floats b) {
        return _mm512_fmaddsub_ps(a, _mm512_set1_ps(1.0f), b);
    }
};

}  // namespace
