// Two OpenMP runtimes in one process fight for cores, so none is linked here: Python hands over
// the entry point of the one that torch has loaded. Without it, threads are started for the call.
#include "parallel.h"

#include <atomic>
#include <thread>
#include <vector>

#include "abi.h"

namespace {

using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
std::atomic<GompParallel> gomp_parallel{nullptr};

struct Loop {
    std::atomic<int64_t> next{0};
    int64_t count;
    void (*body)(void*, int64_t);
    void* context;
};

// However few threads the runtime grants, every index is taken by one of them.
void run(void* argument) {
    Loop& loop = *static_cast<Loop*>(argument);
    for (int64_t i; (i = loop.next.fetch_add(1, std::memory_order_relaxed)) < loop.count;)
        loop.body(loop.context, i);
}

}  // namespace

void parallel_for(int64_t count, int64_t threads, void (*body)(void*, int64_t), void* context) {
    if (threads > count) threads = count;
    if (threads <= 1) {
        for (int64_t i = 0; i < count; ++i) body(context, i);
        return;
    }
    Loop loop;
    loop.count = count;
    loop.body = body;
    loop.context = context;
    if (GompParallel parallel = gomp_parallel.load(std::memory_order_relaxed)) {
        parallel(run, &loop, static_cast<unsigned>(threads), 0);
        return;
    }
    std::vector<std::thread> helpers;
    helpers.reserve(static_cast<size_t>(threads - 1));
    for (int64_t i = 1; i < threads; ++i) {
        try {
            helpers.emplace_back(run, &loop);
        } catch (const std::exception&) {
            break;  // the system grants no more threads: those that run take all of the work
        }
    }
    run(&loop);
    for (std::thread& helper : helpers) helper.join();
}

void on_every_thread(int64_t threads, void (*body)(void*), void* context) {
    GompParallel parallel = gomp_parallel.load(std::memory_order_relaxed);
    if (parallel && threads > 1)
        parallel(body, context, static_cast<unsigned>(threads), 0);
    else
        body(context);
}

// The address of GOMP_parallel in the OpenMP runtime to run on; 0 for threads of our own.
ROPEWALK_EXPORT void ropewalk_use_openmp(int64_t address) {
    gomp_parallel.store(reinterpret_cast<GompParallel>(address));
}
