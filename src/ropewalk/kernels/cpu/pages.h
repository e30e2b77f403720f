// Memory that is about to be written for the first time.
#pragma once

#include <cstdint>

// Asks for huge pages where `bytes` at `address` are many: the system then hands them out, and
// clears them, by 2 MiB and not by 4 KiB, which otherwise costs more than filling them. A hint:
// nothing changes where it is not taken.
void expect_writes(void* address, int64_t bytes);
