// Numbers below the normal range taken as zero, for as long as a caller asks for it.
//
// Intel's processors leave their fast path for every such number.
// Softmax weights of keys far behind a bias are such numbers, by the million.
#include "abi.h"
#include "parallel.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

#if defined(__x86_64__)
constexpr unsigned FLUSH = 0x8000 | 0x0040;  // results to zero, and operands as zero

// Requests may be nested, and every thread goes back to what it was in.
thread_local int64_t asked = 0;
thread_local unsigned before = 0;

void begin(void*) {
    if (asked++ == 0) {
        before = _mm_getcsr();
        _mm_setcsr(before | FLUSH);
    }
}

void end(void*) {
    if (asked > 0 && --asked == 0) _mm_setcsr((_mm_getcsr() & ~FLUSH) | (before & FLUSH));
}
#endif

}  // namespace

// On the `threads` threads of the pool that this call would run on: 1 begins, 0 ends. Other
// processor families take subnormal numbers at full speed, and nothing is done there.
ROPEWALK_EXPORT void ropewalk_flush_subnormals(int64_t threads, int64_t on) {
#if defined(__x86_64__)
    on_every_thread(threads, on ? begin : end, nullptr);
#else
    (void)threads;
    (void)on;
#endif
}
