// Implementation of the thread pool: jobs one at a time, helpers woken for each and not waited for unless they took a task.
#include "pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "watch.h"

namespace cs {
namespace {

struct Job {
  Body body;
  void* context;
  int64_t tasks;
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};

  // An exception would end the process on a helper, and on the caller leave helpers with a job that is gone.
  void drain(int worker) noexcept {
    try {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) body(context, task, worker);
    } catch (...) {
      failed = true;
      next = tasks;
    }
  }
};

class Pool {
 public:
  void run(Job& job, int helpers) {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn.owns_lock()) return job.drain(0);
    {
      std::lock_guard<std::mutex> lock(guard_);
      grow(helpers);
      place();
      job_ = &job;
      seats_ = helpers;
      seated_ = 0;
      posted_.fetch_add(1, std::memory_order_release);
    }
    if (helpers == 1) wake_.notify_one(); else wake_.notify_all();
    job.drain(0);
    // A helper that has not woken by now is not waited for: the job is withdrawn, and only seated helpers must finish.
    {
      std::lock_guard<std::mutex> lock(guard_);
      job_ = nullptr;
    }
    watch([this] { return busy_.load(std::memory_order_acquire) == 0; });
    std::unique_lock<std::mutex> lock(guard_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void grow(int helpers) {
    for (; size_ < helpers; ++size_) {
      try {
        handles_.reserve(size_ + 1);
        std::thread thread(&Pool::work, this);
        handles_.push_back(thread.native_handle());
        thread.detach();
        CPU_ZERO(&allowed_);
      } catch (...) {
        return;  // no thread or no memory: fewer helpers, slower, still right
      }
    }
  }

  // A woken helper is often put on its waker's core, where it waits for the work it should share. So helpers may run where
  // the caller may, but for its own core, again whenever it has moved or may run elsewhere. They are pinned to no core: other
  // processes' callers and helpers are there too, and only the scheduler knows where.
  void place() {
    const int here = sched_getcpu();
    cpu_set_t allowed;
    if (here < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    if (CPU_COUNT(&allowed) > size_) CPU_CLR(here, &allowed);  // else more helpers than other cores
    if (CPU_EQUAL(&allowed, &allowed_)) return;
    allowed_ = allowed;
    for (const pthread_t helper : handles_) pthread_setaffinity_np(helper, sizeof allowed, &allowed);
  }

  void work() {
    std::unique_lock<std::mutex> lock(guard_);
    for (;;) {
      wake_.wait(lock, [this] { return job_ != nullptr && seats_ > 0; });
      Job& job = *job_;
      const int worker = ++seated_;
      --seats_;
      ++busy_;
      lock.unlock();
      job.drain(worker);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
      const int64_t seen = posted_;
      lock.unlock();
      watch([&] { return posted_.load(std::memory_order_acquire) != seen; });
      lock.lock();
    }
  }

  std::mutex turn_, guard_;
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  int seats_ = 0, seated_ = 0, size_ = 0;
  cpu_set_t allowed_{};  // where helpers may run
  std::vector<pthread_t> handles_;
  std::atomic<int> busy_{0};
  std::atomic<int64_t> posted_{0};
};

// Never destroyed: helpers may outlive static destruction. A forked child has no helpers and perhaps a locked mutex,
// so it forgets its parent's pool and makes its own when it first needs one.
std::atomic<Pool*> pool{nullptr};
std::atomic<int> count{0};
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { pool.store(nullptr); });

Pool* shared() {
  Pool* here = pool.load();
  if (here) return here;
  Pool* fresh = new (std::nothrow) Pool;
  if (pool.compare_exchange_strong(here, fresh)) return fresh;
  delete fresh;
  return here;
}

}  // namespace

int threads() {
  const int set = count.load(std::memory_order_relaxed);
  return std::clamp<int>(set ? set : static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads);
}

void set_threads(int n) { count.store(n, std::memory_order_relaxed); }

void parallel(int64_t tasks, int limit, Body body, void* context) {
  const int helpers = static_cast<int>(std::min<int64_t>(std::min(limit, kMostThreads), tasks)) - 1;
  Job job{body, context, tasks};
  Pool* const pool = helpers > 0 ? shared() : nullptr;
  if (pool) pool->run(job, helpers); else job.drain(0);
  if (job.failed) throw std::bad_alloc();
}

}  // namespace cs

int cs_version(void) { return CS_ABI_VERSION; }

int cs_set_threads(int threads) {
  if (threads < 1) return CS_ERROR_ARGUMENT;
  cs::set_threads(threads);
  return CS_OK;
}

int cs_get_threads(void) { return cs::threads(); }
