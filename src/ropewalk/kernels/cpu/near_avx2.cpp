#include "lanes_avx2.h"
#include "near_rows.h"

void near_block_avx2(const NearRequest& request, int64_t first, int64_t last) {
    near_block<Lanes>(request, first, last);
}
