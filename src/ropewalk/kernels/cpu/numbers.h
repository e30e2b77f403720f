// Half precision numbers and one fp32 value at a time. Internal to each file that includes it:
// the same code is compiled for several instruction sets, and must not be shared between them.
#pragma once

#include <cstdint>
#include <cstring>

namespace {

struct Bf16 {
    uint16_t bits;
};
struct Half {
    uint16_t bits;
};

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline float widen(float value) { return value; }
inline double widen(double value) { return value; }
inline float widen(Bf16 value) { return float_of(static_cast<uint32_t>(value.bits) << 16); }

inline float widen(Half value) {
    const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
    const uint32_t rest = value.bits & 0x7fffu;
    if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    // The exponent's bias is moved by a product, which is exact and normalises subnormals.
    return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
}

inline void narrow(float value, float& out) { out = value; }
inline void narrow(double value, double& out) { out = value; }

// To nearest, ties to even; NaN stays NaN.
inline void narrow(float value, Bf16& out) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    out.bits = static_cast<uint16_t>(value != value ? 0x7fc0u : rounded);
}

inline void narrow(float value, Half& out) {
    const uint32_t bits = bits_of(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t rest = bits & 0x7fffffffu;
    uint32_t half;
    if (rest > 0x7f800000u) {
        half = 0x7e00u;
    } else if (rest >= 0x477ff000u) {  // rounds to 65,536 or more
        half = 0x7c00u;
    } else if (rest < 0x38800000u) {  // below 2^-14: the sum's last bit counts 2^-24
        half = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);
    } else {
        half = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
    }
    out.bits = static_cast<uint16_t>(sign | half);
}

}  // namespace
