// Loops over threads, on the OpenMP pool that torch runs already where there is one.
#pragma once

#include <cstdint>

// Calls body(context, i) once for every i in [0, count), on at most `threads` threads at a time.
void parallel_for(int64_t count, int64_t threads, void (*body)(void*, int64_t), void* context);

// Calls body(context) once on every one of the OpenMP pool's first `threads` threads, the caller
// among them; on the caller alone where there is no pool, since other threads do not last.
void on_every_thread(int64_t threads, void (*body)(void*), void* context);
