// What Python and the library agree on. Every function takes one request: an array of 64-bit
// words (numbers, and addresses as numbers) laid out as the structs below, no padding anywhere.
#pragma once

#include <cstdint>

#if defined(_WIN32)
#define ROPEWALK_EXPORT extern "C" __declspec(dllexport)
#else
#define ROPEWALK_EXPORT extern "C" __attribute__((visibility("default")))
#endif

// Raised whenever a struct or a function changes; Python refuses a library of another number.
constexpr int64_t ROPEWALK_ABI = 4;

enum Dtype : int64_t { FLOAT32 = 0, BFLOAT16 = 1, FLOAT16 = 2, FLOAT64 = 3 };
enum RotaryLayout : int64_t { HALF = 0, INTERLEAVED = 1 };
enum InstructionSet : int64_t { BASELINE = 0, AVX2 = 1, AVX512 = 2 };

// Strides count elements; dimensions are (batch, heads, sequence, head_dim).
struct RotaryOperand {
    int64_t x, out;  // addresses; the same one rotates in place
    int64_t heads, length, head_dim;
    int64_t x_stride[4], out_stride[4];
    int64_t cos, sin;         // addresses, (batch, sequence, pairs), pairs side by side
    int64_t table_stride[2];  // batch, sequence; of both tables
};

// Tables are FLOAT64 for FLOAT64 values, else FLOAT32.
struct RotaryRequest {
    int64_t dtype, layout, inverse;  // inverse: 1 rotates by the opposite angle
    int64_t threads, batch, pairs;
    int64_t count;  // operands in use: 1 or 2
    RotaryOperand operands[2];
};

// The instruction set in use: the widest that this processor has, or what was asked for.
InstructionSet instruction_set();
