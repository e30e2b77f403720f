// Embeddings: the work of a lookup cut into blocks for threads.
#include "embedding.h"

#include <algorithm>
#include <atomic>

#include "parallel.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

using LookupBlock = bool(const LookupRequest&, int64_t, int64_t);
LookupBlock lookup_block_baseline;
#if defined(__x86_64__)
LookupBlock lookup_block_avx2, lookup_block_avx512;
#endif

namespace {

constexpr int64_t SERIAL_BYTES = 128 << 10;  // less is done before a second thread has woken
constexpr int64_t BLOCKS_A_THREAD = 16;      // so that a thread that is held up holds up nobody

LookupBlock* lookup_block_for(InstructionSet set) {
#if defined(__x86_64__)
    if (set == AVX512) return lookup_block_avx512;
    if (set == AVX2) return lookup_block_avx2;
#endif
    (void)set;
    return lookup_block_baseline;
}

int64_t threads_for(int64_t threads, int64_t tokens, int64_t width, int64_t dtype) {
    return tokens * width * (dtype == FLOAT32 ? 4 : 2) < SERIAL_BYTES ? 1 : threads;
}

struct LookupWork {
    const LookupRequest* request;
    LookupBlock* block;
    int64_t blocks;
    std::atomic<bool> found{true};
};

void one_lookup_block(void* context, int64_t index) {
    LookupWork& work = *static_cast<LookupWork*>(context);
    const int64_t period = work.request->period;
    const int64_t first = period * index / work.blocks, last = period * (index + 1) / work.blocks;
    if (!work.block(*work.request, first, last)) work.found.store(false);
}

}  // namespace

// Fills `out`. Whether every id and position names a row: where one does not, `out` is not whole.
ROPEWALK_EXPORT int64_t ropewalk_lookup(const LookupRequest* request) {
    const LookupRequest& r = *request;
    if (r.count == 0) return 1;
    const int64_t threads = threads_for(r.threads, r.count, r.width, r.table.dtype);
    LookupWork work{request, lookup_block_for(instruction_set()),
                    std::min(r.period, threads == 1 ? 1 : threads * BLOCKS_A_THREAD)};
    parallel_for(work.blocks, threads, one_lookup_block, &work);
    return work.found.load();
}

// Asks for huge pages under memory not yet touched: a page fault for every 4 KiB of it would
// cost more than filling it does.
ROPEWALK_EXPORT void ropewalk_advise_huge_pages(int64_t data, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const int64_t page = 4096;
    const int64_t first = (data + page - 1) / page * page, last = (data + bytes) / page * page;
    if (last > first)
        madvise(reinterpret_cast<void*>(first), static_cast<size_t>(last - first), MADV_HUGEPAGE);
#else
    (void)data;
    (void)bytes;
#endif
}
