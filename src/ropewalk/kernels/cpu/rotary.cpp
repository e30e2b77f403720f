// Rotary embedding of q and k in one call: the work cut into blocks of positions.
#include "abi.h"
#include "parallel.h"

using Block = void(const RotaryRequest&, const RotaryOperand&, int64_t, int64_t, int64_t);
Block rotary_block_baseline;
#if defined(__x86_64__)
Block rotary_block_avx2, rotary_block_avx512;
#endif

namespace {

constexpr int64_t TABLE_BYTES = 16 << 10;    // of cosines and sines in a block: half of a first cache
constexpr int64_t SERIAL_BYTES = 128 << 10;  // less is done before a second thread has woken

Block* block_for(InstructionSet set) {
#if defined(__x86_64__)
    if (set == AVX512) return rotary_block_avx512;
    if (set == AVX2) return rotary_block_avx2;
#endif
    (void)set;
    return rotary_block_baseline;
}

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

struct Work {
    const RotaryRequest* request;
    Block* block;
    int64_t length, size, blocks;  // positions of the longest operand, of a block; blocks a row
};

void one_block(void* context, int64_t index) {
    const Work& work = *static_cast<const Work*>(context);
    const int64_t batch = index / work.blocks, first = index % work.blocks * work.size;
    for (int64_t i = 0; i < work.request->count; ++i) {
        const RotaryOperand& operand = work.request->operands[i];
        const int64_t last = least(first + work.size, operand.length);
        if (first < last) work.block(*work.request, operand, batch, first, last);
    }
}

}  // namespace

// Turns what the request says. The caller has checked shapes; addresses may be misaligned by
// less than a vector, never by less than an element.
ROPEWALK_EXPORT void ropewalk_rotary(const RotaryRequest* request) {
    // Doubles serve to check gradients: what every compiler makes of plain loops is enough.
    const InstructionSet set = request->dtype == FLOAT64 ? BASELINE : instruction_set();
    Work work{request, block_for(set), 0, 0, 0};
    const int64_t item = request->dtype == FLOAT64 ? 8 : request->dtype == FLOAT32 ? 4 : 2;
    const int64_t table_item = request->dtype == FLOAT64 ? 8 : 4;
    int64_t bytes = 0;
    for (int64_t i = 0; i < request->count; ++i) {
        const RotaryOperand& operand = request->operands[i];
        work.length = most(work.length, operand.length);
        bytes += request->batch * operand.heads * operand.length * operand.head_dim * item;
    }
    if (bytes == 0) return;
    const int64_t threads = bytes < SERIAL_BYTES ? 1 : request->threads;
    work.size = most(1, TABLE_BYTES / most(1, 2 * request->pairs * table_item));
    if (threads > 1) {  // enough blocks for every thread to have some
        const int64_t share = request->batch * work.length / (4 * threads);
        work.size = most(1, least(work.size, share));
    }
    work.blocks = (work.length + work.size - 1) / work.size;
    parallel_for(request->batch * work.blocks, threads, one_block, &work);
}
