// Rotary embedding of q and k in one call: the work cut into parts for threads.
#include "abi.h"
#include "pages.h"
#include "parallel.h"
#include "rotary_part.h"

using Block = void(const RotaryRequest&, const RotaryOperand&, const RotaryPart&);
Block rotary_block_baseline;
#if defined(__x86_64__)
Block rotary_block_avx2, rotary_block_avx512;
#endif

namespace {

// Where the positions of a head lie together, this many heads are walked side by side: a row of
// the tables is read once for all of them, and memory still streams.
constexpr int64_t HEADS_ABREAST = 2;
constexpr int64_t TABLE_BYTES = 1 << 20;     // of a part, to be found in a cache by the next heads
constexpr int64_t ROW_BYTES = 256 << 10;     // of values in a part where heads lie together
constexpr int64_t SERIAL_BYTES = 128 << 10;  // less is done before a second thread has woken
constexpr int64_t PARTS_A_THREAD = 4;        // so that a slow one leaves work to the others

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

// One operand cut into parts that lie together in memory: (batch, positions, heads).
struct Cut {
    int64_t heads, size;     // of one part
    int64_t groups, blocks;  // parts over the heads, over the positions of one row
    int64_t parts;

    Cut(const RotaryRequest& request, const RotaryOperand& o, int64_t item, int64_t threads) {
        const bool row_by_row = o.x_stride[1] < o.x_stride[2];
        const int64_t table_item = request.dtype == FLOAT64 ? 8 : 4;
        heads = most(1, row_by_row ? o.heads : least(HEADS_ABREAST, o.heads));
        groups = (o.heads + heads - 1) / heads;
        size = row_by_row ? ROW_BYTES / most(1, o.heads * o.head_dim * item)
                          : TABLE_BYTES / most(1, 2 * request.pairs * table_item);
        if (threads > 1) {
            const int64_t share = request.batch * groups * o.length / (PARTS_A_THREAD * threads);
            size = least(size, share);
        }
        size = least(most(1, size), most(1, o.length));
        blocks = (o.length + size - 1) / size;
        parts = request.batch * blocks * groups;
    }

    RotaryPart part(int64_t index, const RotaryOperand& o) const {
        const int64_t head = index % groups * heads, block = index / groups;
        const int64_t first = block % blocks * size;
        return {block / blocks, head, least(head + heads, o.heads), first,
                least(first + size, o.length)};
    }
};

struct Work {
    const RotaryRequest* request;
    Block* block;
    const Cut* cuts;
};

void one_part(void* context, int64_t index) {
    const Work& work = *static_cast<const Work*>(context);
    const bool second = index >= work.cuts[0].parts;
    const RotaryOperand& operand = work.request->operands[second];
    const Cut& cut = work.cuts[second];
    if (second) index -= work.cuts[0].parts;
    work.block(*work.request, operand, cut.part(index, operand));
}

}  // namespace

// Rotates what the request says; the caller has checked shapes. Addresses are multiples of an
// element's size and need not be of a vector's. An `out` that is not `x` is new memory without
// gaps, and apart from it.
ROPEWALK_EXPORT void ropewalk_rotary(const RotaryRequest* request) {
    // Doubles serve to check gradients: what every compiler makes of plain loops is enough.
    const InstructionSet set = request->dtype == FLOAT64 ? BASELINE : instruction_set();
    const int64_t item = request->dtype == FLOAT64 ? 8 : request->dtype == FLOAT32 ? 4 : 2;
    int64_t values = 0;
    const RotaryOperand(&o)[2] = request->operands;
    for (int64_t i = 0; i < request->count; ++i) {
        const int64_t own = request->batch * o[i].heads * o[i].length * o[i].head_dim;
        if (o[i].out != o[i].x) expect_writes(reinterpret_cast<void*>(o[i].out), own * item);
        values += own;
    }
    if (values == 0) return;
    const int64_t threads = values * item < SERIAL_BYTES ? 1 : request->threads;
    const Cut cuts[2] = {{*request, o[0], item, threads}, {*request, o[1], item, threads}};
    Work work{request, block_for(set), cuts};
    const int64_t parts = cuts[0].parts + (request->count > 1 ? cuts[1].parts : 0);
    parallel_for(parts, threads, one_part, &work);
}
