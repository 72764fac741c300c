// A few threads that sleep between jobs.
#pragma once

#include <cstdint>

namespace cs {

int threads();
void set_threads(int count);

// Calls body(context, task, worker) once for every task in [0, tasks), on the caller and on at most limit - 1 helpers.
// worker < limit names the thread within the job. A call made while another is running runs on its caller alone.
using Body = void (*)(void* context, int64_t task, int worker);
void parallel(int64_t tasks, int limit, Body body, void* context);

template <class F>
void parallel(int64_t tasks, int limit, F& f) {
  parallel(tasks, limit, [](void* context, int64_t task, int worker) { (*static_cast<F*>(context))(task, worker); }, &f);
}

}  // namespace cs
