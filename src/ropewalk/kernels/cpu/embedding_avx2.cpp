#include "lanes_avx2.h"
#include "embedding_rows.h"

bool lookup_block_avx2(const LookupRequest& request, int64_t first, int64_t last) {
    return lookup_block<Lanes>(request, first, last);
}
