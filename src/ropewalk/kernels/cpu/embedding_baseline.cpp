#include "lanes_baseline.h"
#include "embedding_rows.h"

bool lookup_block_baseline(const LookupRequest& request, int64_t first, int64_t last) {
    return lookup_block<Lanes>(request, first, last);
}

void sum_block_baseline(const SumRequest& request, int64_t first, int64_t last, int64_t left,
                       int64_t right) {
    sum_block<Lanes>(request, first, last, left, right);
}
