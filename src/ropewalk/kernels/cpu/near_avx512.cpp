#include "lanes_avx512.h"
#include "near_rows.h"

void near_block_avx512(const NearRequest& request, int64_t first, int64_t last) {
    near_block<Lanes>(request, first, last);
}
