// Nearest rows: a pass over a table cut into blocks for threads.
#include "near.h"

#include <algorithm>

#include "parallel.h"

using NearBlock = void(const NearRequest&, int64_t, int64_t);
NearBlock near_block_baseline;
#if defined(__x86_64__)
NearBlock near_block_avx2, near_block_avx512;
#endif

namespace {

constexpr int64_t SERIAL_BYTES = 128 << 10;  // less is done before a second thread has woken
constexpr int64_t BLOCK_BYTES = 4 << 20;     // long, for at its end what was fetched ahead is lost
constexpr int64_t BLOCKS_A_THREAD = 16;      // so that a thread that is held up holds up nobody

NearBlock* near_block_for(InstructionSet set) {
#if defined(__x86_64__)
    if (set == AVX512) return near_block_avx512;
    if (set == AVX2) return near_block_avx2;
#endif
    (void)set;
    return near_block_baseline;
}

struct Work {
    const NearRequest* request;
    NearBlock* block;
    int64_t size;  // rows of a block
};

void one_block(void* context, int64_t index) {
    const Work& work = *static_cast<const Work*>(context);
    const int64_t first = index * work.size;
    work.block(*work.request, first, std::min(first + work.size, work.request->rows.count));
}

}  // namespace

// Fills `scores` and `squares`. There is one query at least.
ROPEWALK_EXPORT void ropewalk_near(const NearRequest* request) {
    const NearRequest& r = *request;
    const int64_t row_bytes = std::max<int64_t>(1, r.width * (r.rows.dtype == FLOAT32 ? 4 : 2));
    const int64_t threads = r.rows.count * row_bytes * r.count < SERIAL_BYTES ? 1 : r.threads;
    const int64_t share = r.rows.count / (threads * BLOCKS_A_THREAD);
    // A whole number of rows abreast.
    Work work{request, near_block_for(instruction_set()),
              std::max<int64_t>(1, std::min(BLOCK_BYTES / row_bytes, share) / 8) * 8};
    parallel_for((r.rows.count + work.size - 1) / work.size, threads, one_block, &work);
}
