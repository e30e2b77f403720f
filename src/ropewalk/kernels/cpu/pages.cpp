#include "pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

void expect_writes(void* address, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr uintptr_t huge = 2 << 20;
    const uintptr_t start = reinterpret_cast<uintptr_t>(address);
    const uintptr_t first = (start + huge - 1) / huge * huge;
    const uintptr_t last = (start + static_cast<uintptr_t>(bytes)) / huge * huge;
    if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)address;
    (void)bytes;
#endif
}
