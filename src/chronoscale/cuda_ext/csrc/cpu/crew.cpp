// Bound sampling threads (FAST, section 4.4). Helpers of the pool take whatever task is next; here the same part of every job runs on the
// same processor, whose caches, own and shared, have the data that the part read before.
#include "crew.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "pool.h"
#include "watch.h"

namespace {

class Crew {
 public:
  // Throws std::bad_alloc where there is no thread or no memory. False: a processor is not there, or not for this process.
  bool bind(const int32_t* cpus, int count) {
    members_.reserve(static_cast<size_t>(count));
    for (int part = 0; part < count; ++part) {
      try {
        members_.emplace_back(&Crew::work, this, part, count);
      } catch (...) {
        throw std::bad_alloc();
      }
      if (cpus[part] < 0 || cpus[part] >= CPU_SETSIZE) return false;
      cpu_set_t affinity;
      CPU_ZERO(&affinity);
      CPU_SET(cpus[part], &affinity);
      if (pthread_setaffinity_np(members_.back().native_handle(), sizeof affinity, &affinity) != 0) return false;
    }
    return true;
  }

  ~Crew() {
    {
      std::lock_guard<std::mutex> lock(guard_);
      ended_ = true;
      posted_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& member : members_) member.join();
  }

  int size() const { return static_cast<int>(members_.size()); }

  // One job at a time: the caller holds the crew.
  void run(cs::Part body, void* context) {
    failed_ = false;
    {
      std::lock_guard<std::mutex> lock(guard_);
      body_ = body;
      context_ = context;
      busy_ = size();
      posted_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    cs::watch([this] { return busy_.load(std::memory_order_acquire) == 0; });
    {
      std::unique_lock<std::mutex> lock(guard_);
      done_.wait(lock, [this] { return busy_ == 0; });
    }
    if (failed_) throw std::bad_alloc();
  }

 private:
  void work(int part, int parts) {
    for (int64_t seen = 0;;) {
      cs::watch([&] { return posted_.load(std::memory_order_acquire) != seen; });
      {
        std::unique_lock<std::mutex> lock(guard_);
        wake_.wait(lock, [&] { return posted_ != seen; });
        if (ended_) return;
        seen = posted_;
      }
      try {
        body_(context_, part, parts);
      } catch (...) {
        failed_ = true;
      }
      std::lock_guard<std::mutex> lock(guard_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::vector<std::thread> members_;
  std::mutex guard_;
  std::condition_variable wake_, done_;
  cs::Part body_ = nullptr;
  void* context_ = nullptr;
  bool ended_ = false;
  std::atomic<bool> failed_{false};
  std::atomic<int> busy_{0};
  std::atomic<int64_t> posted_{0};
};

// The owner of `turn` may run, make or end the crew. Neither is destroyed with the process, for threads may outlive static destruction. A
// forked child has none of its parent's threads and perhaps its locked turn: it forgets both, and is not bound.
struct Seat {
  std::mutex turn;
  std::unique_ptr<Crew> crew;
};
std::atomic<Seat*> seat{nullptr};
std::atomic<int> members{0};
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { seat.store(nullptr), members.store(0); });

Seat& shared() {
  Seat* here = seat.load();
  if (here) return *here;
  std::unique_ptr<Seat> fresh(new Seat);
  if (seat.compare_exchange_strong(here, fresh.get())) return *fresh.release();
  return *here;
}

}  // namespace

int cs::bound() { return members.load(std::memory_order_acquire); }

bool cs::by_crew(Part body, void* context) {
  if (bound() == 0) return false;
  Seat& here = shared();
  std::lock_guard<std::mutex> turn(here.turn);
  if (!here.crew) return false;  // it ended meanwhile
  here.crew->run(body, context);
  return true;
}

int cs_bind(int count, const int32_t* cpus) {
  if (count < 1 || count > cs::kMostThreads || !cpus) return CS_ERROR_ARGUMENT;
  return cs::guarded([&] {
    Seat& here = shared();
    std::lock_guard<std::mutex> turn(here.turn);
    members = 0;
    here.crew.reset();
    std::unique_ptr<Crew> crew(new Crew);
    if (!crew->bind(cpus, count)) return CS_ERROR_UNAVAILABLE;
    here.crew = std::move(crew);
    members = count;
    return CS_OK;
  });
}

int cs_unbind(void) {
  return cs::guarded([] {
    Seat& here = shared();
    std::lock_guard<std::mutex> turn(here.turn);
    members = 0;
    here.crew.reset();
    return CS_OK;
  });
}

int cs_bound(void) { return cs::bound(); }
