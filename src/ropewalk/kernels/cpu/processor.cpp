// Which instruction set runs: found out once, from one binary that holds all of them.
#include <atomic>

#include "abi.h"

namespace {

InstructionSet widest() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("f16c");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (avx512) return AVX512;
    if (avx2) return AVX2;
#endif
    return BASELINE;
}

const InstructionSet available = widest();
std::atomic<int64_t> chosen{available};

}  // namespace

InstructionSet instruction_set() {
    return static_cast<InstructionSet>(chosen.load(std::memory_order_relaxed));
}

ROPEWALK_EXPORT int64_t ropewalk_abi() { return ROPEWALK_ABI; }

ROPEWALK_EXPORT int64_t ropewalk_instruction_set() { return instruction_set(); }

// Runs on `wanted` from now on, or on the widest that there is when that is narrower.
ROPEWALK_EXPORT int64_t ropewalk_use_instruction_set(int64_t wanted) {
    chosen.store(wanted < available ? wanted : available);
    return instruction_set();
}
