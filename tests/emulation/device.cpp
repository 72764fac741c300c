// The scheduler: which thread goes on, and where it has to wait.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>

#include "block.h"
#include "cuda_runtime.h"

namespace emu {

const Place* here;
dim3 block_dim, grid_dim;

namespace {

constexpr int64_t kPatience = 1'000'000;  // turns without anything done after which threads are said to wait in vain
constexpr int64_t kFair = 1'000;          // such turns after which nobody is late any more: somebody may hold a lock
constexpr size_t kShared = 48 << 10;      // bytes a block
constexpr unsigned kUnderWay = 3;         // blocks at a time, at most: enough that one can meet another half done

struct Stop {};  // unwinds a thread of a launch that has failed

// One for the process: launches take turns.
class Device {
 public:
  std::string run(const Config& config, void (*body)(void*), void* context) {
    body_ = body, context_ = context;
    block_dim = config.block, grid_dim = config.grid, dynamic_ = config.shared;
    order_.resize(config.grid.x);
    std::iota(order_.begin(), order_.end(), 0u);
    std::shuffle(order_.begin(), order_.end(), random_);
    scatter_ = (uint64_t{random_()} << 32 | random_()) | 1;
    grain_ = 5 * (random_() % 3), share_ = random_() % 5, rare_ = 1 << random_() % 4;
    next_ = 0, patience_ = kPatience, failure_.clear(), failed_ = false;
    main_.adopt();
    for (unsigned i = random_() % kUnderWay + 1; i > 0; --i) {
      blocks_.emplace_back(new Block)->reserve(this, dynamic_, 16);
      admit(*blocks_.back());
    }
    while (!failed_ && !idle()) {
      resume(*take());
      for (size_t i = 0; idle() && !failed_ && i < blocks_.size(); ++i) {
        failure_ = blocks_[i]->stuck();
        failed_ = !failure_.empty();
      }
    }
    ready_[0].clear(), ready_[1].clear();
    for (const auto& block : blocks_) {
      for (Thread& t : block->threads) {
        if (t.fiber && !t.done) resume(t);  // only after a failure: it ends there
      }
    }
    blocks_.clear();
    return failure_;
  }

  void seed(unsigned n) { random_.seed(n); }

  void yield() {
    if (--patience_ < 0) fail(format("block %u: a loop around an atomic or a fence that does not end", now_->block.x));
    put(*now_);
    wait();
  }

  int barrier(Vote vote, bool yes, Site site) {
    Block& block = *now_->home;
    if (block.arrived && site != block.site) {
      fail(format("block %u: threads wait at different barriers, %s and %s", now_->block.x, described(block.site).c_str(),
                  described(site).c_str()));
    }
    block.site = site;
    block.votes += yes;
    now_->at_barrier = true;
    if (++block.arrived == block.threads.size()) {
      block.outcome = block.votes;
      block.arrived = block.votes = 0;
      for (Thread& t : block.threads) t.at_barrier = false;
      release(block);
      patience_ = kPatience;
    }
    wait();
    const unsigned outcome = block.outcome;
    return vote == Vote::all ? outcome == block.threads.size() : vote == Vote::any ? outcome > 0 : outcome;
  }

  void exchange(Exchange& e) {
    const unsigned lane = now_->thread.x % kWarp;
    if (!(e.mask >> lane & 1)) fail(described(*now_, e) + format(": lane %u calls with mask 0x%08x, without itself", lane, e.mask));
    if (e.width < 1 || e.width > 32 || (e.width & (e.width - 1))) fail(described(*now_, e) + format(": width %d", e.width));
    now_->exchange = &e;
    Thread* lanes[kWarp];
    if (!gather(*now_, lanes)) return wait();
    complete(e.mask, lanes);
    for (unsigned i = 0; i < kWarp; ++i) {
      if (!(e.mask >> i & 1)) continue;
      lanes[i]->exchange = nullptr;
      if (lanes[i] != now_) put(*lanes[i]);
    }
    patience_ = kPatience;
  }

  void* shared(const void* key, size_t size, size_t alignment) {
    Block& block = *now_->home;
    if (void* const there = block.find(key)) return there;
    size_t total = size;
    for (const Memory& m : block.shared) total += m.size;
    if (total > kShared) fail(format("%zu bytes of shared memory a block; there are %zu", total, kShared));
    return block.reserve(key, size, alignment);
  }

  void* dynamic_shared() { return now_->home->find(this); }

 private:
  void admit(Block& block) {
    if (next_ == order_.size()) return;
    block.start(order_[next_++], block_dim.x);
    release(block);
  }

  // All its threads can go on; once in a while some of them are late until the next barrier, and other blocks, in step so far, overtake.
  void release(Block& block) {
    const uint64_t share = draw() % rare_ ? 0 : share_;
    uint64_t late = 0;
    for (Thread& t : block.threads) {
      if (t.thread.x % (1u << grain_) == 0) late = draw() % 8 < share;
      t.late = late;
      put(t);
    }
  }

  uint64_t draw() {
    scatter_ ^= scatter_ << 13, scatter_ ^= scatter_ >> 7, scatter_ ^= scatter_ << 17;  // xorshift
    return scatter_ >> 32;
  }

  void put(Thread& t) { ready_[t.late].push_back(&t); }

  bool idle() const { return ready_[0].empty() && ready_[1].empty(); }

  // Any of those that can go on, a late one only if there are no others: were all alike, none would fall far behind.
  Thread* take() {
    if (idle()) return nullptr;
    const bool fair = patience_ < kPatience - kFair && !ready_[1].empty() && draw() % 2;
    auto& from = ready_[fair || ready_[0].empty()];
    std::swap(from[draw() * from.size() >> 32], from.back());
    Thread* const taken = from.back();
    from.pop_back();
    return taken;
  }

  Fiber& stack(Thread& t) {
    if (!t.fiber) {
      if (parked_.empty()) parked_.push_back(new Fiber([](Fiber& own) { one().work(own); }));  // kept for later launches
      t.fiber = parked_.back();
      parked_.pop_back();
    }
    return *t.fiber;
  }

  void resume(Thread& t) {
    Fiber& to = stack(t);
    here = now_ = &t;
    main_.go(to);
  }

  // The running thread lets others go on until somebody takes it up again.
  void wait() {
    Thread* const self = now_;
    Thread* const next = take();
    if (next == self) return;
    Fiber& to = next ? stack(*next) : main_;
    if (next) here = now_ = next;
    self->fiber->go(to);
    if (failed_) throw Stop{};
  }

  // A stack's life. A thread that has not begun goes on where one has ended: threads that never wait need no switch.
  void work(Fiber& own) {
    for (;;) {
      try {
        body_(context_);
      } catch (const Stop&) {
      }
      now_->done = true;
      patience_ = kPatience;
      Block& block = *now_->home;
      if (--block.live == 0 && !failed_) admit(block);
      Thread* const next = failed_ ? nullptr : take();
      if (next && !next->fiber) {
        next->fiber = &own;
        here = now_ = next;
        continue;
      }
      parked_.push_back(&own);
      if (next) here = now_ = next;
      own.go(next ? *next->fiber : main_);
    }
  }

  [[noreturn]] void fail(std::string text) {
    failed_ = true;
    failure_ = std::move(text);
    throw Stop{};
  }

  static Device& one();
  friend Device& device();

  void (*body_)(void*) = nullptr;
  void* context_ = nullptr;
  size_t dynamic_ = 0;
  std::vector<unsigned> order_;  // of blocks
  size_t next_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;  // under way
  std::vector<Thread*> ready_[2];  // and those of them that are late
  std::vector<Fiber*> parked_;
  Fiber main_;
  Thread* now_ = nullptr;
  int64_t patience_ = 0;
  bool failed_ = false;
  std::string failure_;
  std::mt19937 random_{0};  // what the seed is for
  uint64_t scatter_ = 1;    // drawn from it for a launch: quicker
  unsigned grain_ = 0;      // single threads, warps or whole blocks (2^grain threads) are late,
  unsigned share_ = 0;      // so many of eight,
  unsigned rare_ = 1;       // after one barrier in so many
};

Device& Device::one() {
  static Device* const one = new Device;  // never destroyed: nor are its stacks
  return *one;
}

Device& device() { return Device::one(); }

std::mutex turn;

}  // namespace

void launch(const Config& c, void (*body)(void*), void* context) {
  if (refusal() != cudaSuccess) return set_error(refusal());
  const bool flat = c.grid.y == 1 && c.grid.z == 1 && c.block.y == 1 && c.block.z == 1;
  if (!flat || c.grid.x < 1 || c.grid.x > INT32_MAX || c.block.x < 1 || c.block.x > 1024) return set_error(cudaErrorInvalidConfiguration);
  if (c.shared > kShared) return set_error(cudaErrorInvalidValue);
  const std::lock_guard<std::mutex> lock(turn);
  const std::string failure = device().run(c, body, context);
  if (!failure.empty()) set_error(cudaErrorLaunchFailure, failure.c_str());
}

void* shared(const void* key, size_t size, size_t alignment) { return device().shared(key, size, alignment); }
void* dynamic_shared() { return device().dynamic_shared(); }
int barrier(Vote vote, bool yes, Site site) { return device().barrier(vote, yes, site); }
void exchange(Exchange& e) { device().exchange(e); }
void yield() { device().yield(); }

}  // namespace emu

// The order in which blocks and threads go on from here.
extern "C" __attribute__((visibility("default"))) void emu_seed(unsigned n) { emu::device().seed(n); }
