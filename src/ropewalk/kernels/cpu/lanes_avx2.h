// Eight fp32 values at a time, loaded from and stored to fp32, bf16 and fp16.
#pragma once

#include <immintrin.h>

#include "numbers.h"

namespace {

struct Lanes {
    using Floats = __m256;
    static constexpr int64_t width = 8;

    static Floats all(float value) { return _mm256_set1_ps(value); }
    static Floats load(const float* from) { return _mm256_loadu_ps(from); }
    static Floats load(const Bf16* from) {
        const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)from));
        return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
    }
    static Floats load(const Half* from) {
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from));
    }

    static void store(float* to, Floats value) { _mm256_storeu_ps(to, value); }
    static void store(Bf16* to, Floats value) {
        const __m256i bits = _mm256_castps_si256(value);
        const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i up = _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff));
        const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
        const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
        const __m256i words = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), nan);
        const __m256i packed = _mm256_packus_epi32(words, words);
        const __m256i ordered = _mm256_permute4x64_epi64(packed, 0x08);
        _mm_storeu_si128((__m128i*)to, _mm256_castsi256_si128(ordered));
    }
    static void store(Half* to, Floats value) {
        _mm_storeu_si128((__m128i*)to, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
    }

    static Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
    static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
    static Floats sub(Floats a, Floats b) { return _mm256_sub_ps(a, b); }

    static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
    static float sum(Floats v) {
        const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    }

    // Of lanes 0 1 2 ..: 0 0 1 1 .., the upper half likewise, and 1 0 3 2 ..
    static Floats low_twice(Floats v) {
        return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
    }
    static Floats high_twice(Floats v) {
        return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7));
    }
    static Floats swap_pairs(Floats v) { return _mm256_permute_ps(v, 0xb1); }
    // a - b in even lanes, a + b in odd ones.
    static Floats sub_add(Floats a, Floats b) { return _mm256_addsub_ps(a, b); }
};

}  // namespace
