// Embeddings: the work of a lookup and of a table's gradient cut into blocks, and tokens grouped
// by their ids.
#include "embedding.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "parallel.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

using LookupBlock = bool(const LookupRequest&, int64_t, int64_t);
using SumBlock = void(const SumRequest&, int64_t, int64_t, int64_t, int64_t);
LookupBlock lookup_block_baseline;
SumBlock sum_block_baseline;
#if defined(__x86_64__)
LookupBlock lookup_block_avx2, lookup_block_avx512;
SumBlock sum_block_avx2, sum_block_avx512;
#endif

namespace {

constexpr int64_t SERIAL_BYTES = 128 << 10;  // less is done before a second thread has woken
constexpr int64_t BLOCKS_A_THREAD = 16;      // so that a thread that is held up holds up nobody
constexpr int64_t STRIP = 64;                // channels that threads share out: whole vectors
constexpr int DIGIT = 11;                    // bits of an id sorted in a pass

LookupBlock* lookup_block_for(InstructionSet set) {
#if defined(__x86_64__)
    if (set == AVX512) return lookup_block_avx512;
    if (set == AVX2) return lookup_block_avx2;
#endif
    (void)set;
    return lookup_block_baseline;
}

SumBlock* sum_block_for(InstructionSet set) {
#if defined(__x86_64__)
    if (set == AVX512) return sum_block_avx512;
    if (set == AVX2) return sum_block_avx2;
#endif
    (void)set;
    return sum_block_baseline;
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

struct SumWork {
    const SumRequest* request;
    SumBlock* block;
    int64_t blocks;
    bool by_channel;
};

void one_sum_block(void* context, int64_t index) {
    const SumWork& work = *static_cast<const SumWork*>(context);
    const SumRequest& r = *work.request;
    if (work.by_channel) {
        const int64_t strips = (r.width + STRIP - 1) / STRIP;
        const int64_t left = strips * index / work.blocks * STRIP;
        const int64_t right = std::min(r.width, strips * (index + 1) / work.blocks * STRIP);
        work.block(r, 0, r.groups, left, right);
        return;
    }
    const int64_t* starts = reinterpret_cast<const int64_t*>(r.starts);
    const int64_t tokens = starts[r.groups];
    const auto group_at = [&](int64_t token) {
        return std::lower_bound(starts, starts + r.groups, token) - starts;
    };
    work.block(r, group_at(tokens * index / work.blocks),
               group_at(tokens * (index + 1) / work.blocks), 0, r.width);
}

// Sorts order[0..kept) by id, one digit of the ids after another; equal ids stay in their order.
void sort_by_id(const int64_t* ids, int64_t rows, int64_t* order, int64_t kept) {
    std::vector<int64_t> spare(static_cast<size_t>(kept));
    int64_t *from = order, *to = spare.data();
    for (int shift = 0; shift < 63 && (rows - 1) >> shift > 0; shift += DIGIT) {
        const auto digit = [&](int64_t token) { return ids[token] >> shift & ((1 << DIGIT) - 1); };
        int64_t place[(1 << DIGIT) + 1] = {0};
        for (int64_t k = 0; k < kept; ++k) ++place[digit(from[k]) + 1];
        for (int b = 0; b < 1 << DIGIT; ++b) place[b + 1] += place[b];
        for (int64_t k = 0; k < kept; ++k) to[place[digit(from[k])]++] = from[k];
        std::swap(from, to);
    }
    if (from != order) std::copy(from, from + kept, order);
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

// Groups the tokens ids[0..count) by id, ascending, without those of id `padding`. `order` and
// `touched` have room for `count`, `starts` for one more. The number of groups, or -1 where an
// id names none of `rows`.
ROPEWALK_EXPORT int64_t ropewalk_group(const int64_t* ids, int64_t count, int64_t rows,
                                       int64_t padding, int64_t* order, int64_t* starts,
                                       int64_t* touched) {
    int64_t kept = 0, groups = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (ids[i] < 0 || ids[i] >= rows) return -1;
        if (ids[i] != padding) order[kept++] = i;
    }
    sort_by_id(ids, rows, order, kept);
    for (int64_t k = 0; k < kept; ++k) {
        if (k > 0 && ids[order[k]] == ids[order[k - 1]]) continue;
        touched[groups] = ids[order[k]];
        starts[groups++] = k;
    }
    starts[groups] = kept;
    return groups;
}

// Sums the gradients of every group. Threads share the tokens evenly by groups, or the channels
// where one group is more than a thread's share, as that of a very frequent id may be.
ROPEWALK_EXPORT void ropewalk_sum(const SumRequest* request) {
    const SumRequest& r = *request;
    const int64_t* starts = reinterpret_cast<const int64_t*>(r.starts);
    const int64_t tokens = starts[r.groups];
    if (tokens == 0) return;
    int64_t longest = 0;
    for (int64_t g = 0; g < r.groups; ++g) longest = std::max(longest, starts[g + 1] - starts[g]);
    const int64_t threads = threads_for(r.threads, tokens, r.width, r.grad.dtype);
    const bool by_channel = longest * threads * 2 > tokens;
    const int64_t blocks = by_channel ? threads : threads * BLOCKS_A_THREAD;
    SumWork work{request, sum_block_for(instruction_set()), blocks, by_channel};
    parallel_for(blocks, threads, one_sum_block, &work);
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
