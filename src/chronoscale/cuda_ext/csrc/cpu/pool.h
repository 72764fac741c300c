// Thread pool of the CPU kernels: its threads sleep between jobs.
#pragma once

#include <cstdint>

#include "../common/chronoscale.h"

namespace cs {

constexpr int kMostThreads = 1024;

int threads();  // at most kMostThreads
void set_threads(int count);

// Calls body(context, task, worker) once for every task in [0, tasks), on the caller and on at most limit - 1 helpers.
// worker < limit names the thread within the job. A call made while another is running runs only on its caller. When a task throws,
// no further one begins, and the caller gets std::bad_alloc: nothing else is thrown here.
using Body = void (*)(void* context, int64_t task, int worker);
void parallel(int64_t tasks, int limit, Body body, void* context);

template <class F>
void parallel(int64_t tasks, int limit, F& f) {
  parallel(tasks, limit, [](void* context, int64_t task, int worker) { (*static_cast<F*>(context))(task, worker); }, &f);
}

// Runs f at the boundary of the C ABI, which no exception crosses.
template <class F>
int guarded(F f) noexcept {
  try {
    return f();
  } catch (...) {
    return CS_ERROR_MEMORY;
  }
}

}  // namespace cs
