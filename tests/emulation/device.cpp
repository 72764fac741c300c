// The scheduler: blocks, their threads, what they wait for, and what is wrong when nobody can go on.
#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "fiber.h"

namespace emu {

const Place* here;
dim3 block_dim, grid_dim;

namespace {

constexpr unsigned kWarp = 32;
constexpr int64_t kPatience = 1'000'000;  // turns without anything done after which threads are said to wait in vain
constexpr size_t kShared = 48 << 10;      // bytes a block

struct Stop {};  // unwinds a thread of a launch that failed

struct Block;

struct Thread : Place {
  Block* home;
  Fiber* fiber;        // null until it runs for the first time
  Exchange* exchange;  // it waits for the lanes of this mask
  bool at_barrier, done;
};

struct Memory {
  const void* key;
  size_t size;
  std::align_val_t alignment;
  void* data;
};

struct Block {
  std::vector<Thread> threads;
  unsigned live = 0, arrived = 0;
  Site site{};
  unsigned votes = 0, outcome = 0;
  std::vector<Memory> shared;

  ~Block() {
    for (const Memory& m : shared) ::operator delete(m.data, m.alignment);
  }
};

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* pattern, ...) {
  char text[600];
  va_list given;
  va_start(given, pattern);
  vsnprintf(text, sizeof text, pattern, given);
  va_end(given);
  return text;
}

std::string at(Site s) {
  const char* name = strrchr(s.file, '/');
  return format("%s:%d", name ? name + 1 : s.file, s.line);
}

// One for the process: launches take turns.
class Device {
 public:
  std::string run(const Config& config, void (*body)(void*), void* context) {
    body_ = body, context_ = context;
    block_dim = config.block, grid_dim = config.grid;
    dynamic_ = config.shared;
    order_.resize(config.grid.x);
    std::iota(order_.begin(), order_.end(), 0u);
    std::shuffle(order_.begin(), order_.end(), random_);
    scatter_ = (uint64_t{random_()} << 32 | random_()) | 1;
    next_ = 0, patience_ = kPatience, failure_.clear(), failed_ = false;
    main_.adopt();
    for (unsigned i = random_() % 3 + 1; i > 0; --i) admit(*blocks_.emplace_back(new Block));
    while (!failed_ && !ready_.empty()) {
      resume(*take());
      if (!failed_ && ready_.empty()) diagnose();
    }
    ready_.clear();
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
    if (--patience_ < 0) fail("threads wait for something that never comes (an endless loop around an atomic or a fence?)");
    ready_.push_back(now_);
    wait();
  }

  int barrier(Vote vote, bool yes, Site site) {
    Block& block = *now_->home;
    if (block.arrived && site != block.site) {
      fail(format("block %u: threads wait at different barriers, %s and %s", now_->block.x, at(block.site).c_str(), at(site).c_str()));
    }
    block.site = site;
    block.votes += yes;
    now_->at_barrier = true;
    if (++block.arrived == block.threads.size()) {
      block.outcome = block.votes;
      block.arrived = block.votes = 0;
      for (Thread& t : block.threads) {
        t.at_barrier = false;
        ready_.push_back(&t);
      }
      patience_ = kPatience;
    }
    wait();
    const unsigned outcome = block.outcome;
    return vote == Vote::all ? outcome == block.threads.size() : vote == Vote::any ? outcome > 0 : outcome;
  }

  void exchange(Exchange& e) {
    const unsigned thread = now_->thread.x, lane = thread % kWarp;
    if (!(e.mask >> lane & 1)) fail(described(*now_, e) + format(": lane %u calls with mask 0x%08x, without itself", lane, e.mask));
    if (e.width < 1 || e.width > 32 || (e.width & (e.width - 1))) fail(described(*now_, e) + format(": width %d", e.width));
    now_->exchange = &e;
    Thread* lanes[kWarp];
    if (!gather(thread - lane, e, lanes)) return wait();
    complete(e.mask, lanes);
    for (unsigned i = 0; i < kWarp; ++i) {
      if (!(e.mask >> i & 1)) continue;
      lanes[i]->exchange = nullptr;
      if (lanes[i] != now_) ready_.push_back(lanes[i]);
    }
    patience_ = kPatience;
  }

  void* shared(const void* key, size_t size, size_t alignment) {
    Block& block = *now_->home;
    size_t total = size;
    for (const Memory& m : block.shared) {
      if (m.key == key) return m.data;
      total += m.size;
    }
    if (total > kShared) fail(format("%zu bytes of shared memory a block; there are %zu", total, kShared));
    return reserve(block, key, size, alignment);
  }

  void* dynamic_shared() { return now_->home->shared.front().data; }

 private:
  // Exact allocations, so that the address sanitizer knows their ends.
  void* reserve(Block& block, const void* key, size_t size, size_t alignment) {
    const auto aligned = std::align_val_t(std::max<size_t>(alignment, 16));
    void* const data = ::operator new(size, aligned);
    memset(data, 0xff, size);
    block.shared.push_back({key, size, aligned, data});
    return data;
  }

  void admit(Block& block) {
    if (next_ == order_.size()) return;
    const unsigned index = order_[next_++], size = block_dim.x;
    block.threads.resize(size);
    block.live = size;
    if (block.shared.empty()) reserve(block, this, dynamic_, 16);
    for (const Memory& m : block.shared) memset(m.data, 0xff, m.size);
    for (unsigned i = 0; i < size; ++i) {
      block.threads[i] = {{{i, 0, 0}, {index, 0, 0}}, &block, nullptr, nullptr, false, false};
      ready_.push_back(&block.threads[i]);
    }
  }

  Thread* take() {
    if (ready_.empty()) return nullptr;
    // xorshift, seeded at the launch by the slower generator that the user seeds.
    scatter_ ^= scatter_ << 13, scatter_ ^= scatter_ >> 7, scatter_ ^= scatter_ << 17;
    std::swap(ready_[static_cast<size_t>((scatter_ >> 32) * ready_.size() >> 32)], ready_.back());
    Thread* const taken = ready_.back();
    ready_.pop_back();
    return taken;
  }

  Fiber& stack(Thread& t) {
    if (!t.fiber) {
      if (parked_.empty()) parked_.push_back(new Fiber([](Fiber& own) { device().work(own); }));  // kept: for later launches
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

  // Whether all lanes of e.mask have come to e; `lanes` are its warp's threads.
  bool gather(unsigned first, const Exchange& e, Thread** lanes) {
    std::vector<Thread>& threads = now_->home->threads;
    for (unsigned i = 0; i < kWarp; ++i) {
      if (!(e.mask >> i & 1)) continue;
      if (first + i >= threads.size()) return false;
      lanes[i] = &threads[first + i];
      const Exchange* const other = lanes[i]->exchange;
      if (!other || differ(e, *other)) return false;
    }
    return true;
  }

  static bool differ(const Exchange& a, const Exchange& b) {
    return a.mask != b.mask || a.site != b.site || a.kind != b.kind || a.size != b.size;
  }

  static void complete(unsigned mask, Thread** lanes);
  static std::string described(const Thread& t, const Exchange& e) {
    return format("block %u, warp %u: %s at %s", t.block.x, t.thread.x / kWarp, e.name, at(e.site).c_str());
  }

  // Nobody can go on: finds the first thread that waits, and for whom.
  void diagnose() {
    for (const auto& block : blocks_) {
      for (const Thread& t : block->threads) {
        if (t.done || !t.exchange) continue;
        failure_ = described(t, *t.exchange) + missing(*block, t);
        failed_ = true;
        return;
      }
    }
    for (const auto& block : blocks_) {
      if (!block->arrived) continue;
      const auto gone = std::find_if(block->threads.begin(), block->threads.end(), [](const Thread& t) { return t.done; });
      failure_ = format("block %u: %u of %zu threads wait at the barrier at %s, which the others (thread %u, for one) never reach",
                        block->threads[0].block.x, block->arrived, block->threads.size(), at(block->site).c_str(), gone->thread.x);
      failed_ = true;
    }
  }

  static std::string missing(const Block& block, const Thread& t) {
    const Exchange& e = *t.exchange;
    std::string found = ": waits for itself";
    for (unsigned i = kWarp; i-- > 0;) {
      const unsigned thread = t.thread.x / kWarp * kWarp + i;
      if (!(e.mask >> i & 1) || thread == t.thread.x) continue;
      if (thread >= block.threads.size()) return format(": lane %u of mask 0x%08x does not exist", i, e.mask);
      const Thread& other = block.threads[thread];
      if (other.done) return format(": lane %u of mask 0x%08x has exited", i, e.mask);
      if (other.at_barrier) found = format(": lane %u of mask 0x%08x waits at the barrier at %s", i, e.mask, at(block.site).c_str());
      if (other.exchange && differ(e, *other.exchange)) {
        found = format(": lane %u of mask 0x%08x has come to %s at %s with mask 0x%08x", i, e.mask, other.exchange->name,
                       at(other.exchange->site).c_str(), other.exchange->mask);
      }
    }
    return found;
  }

  static Device& device();
  friend Device& the();

  void (*body_)(void*) = nullptr;
  void* context_ = nullptr;
  size_t dynamic_ = 0;
  std::vector<unsigned> order_;  // of blocks
  size_t next_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;  // under way
  std::vector<Thread*> ready_;
  std::vector<Fiber*> parked_;
  Fiber main_;
  Thread* now_ = nullptr;
  int64_t patience_ = 0;
  bool failed_ = false;
  std::string failure_;
  std::mt19937 random_{0};
  uint64_t scatter_ = 1;
};

// The source of a shuffle for a lane, or the lane itself where that lies outside its segment.
unsigned source(const Exchange& e, unsigned lane) {
  const unsigned width = e.width, begin = lane & ~(width - 1), argument = e.argument;
  switch (e.kind) {
    case Exchange::index: return begin | (argument & (width - 1));
    case Exchange::up: return lane >= begin + argument ? lane - argument : lane;
    case Exchange::down: return lane + argument < begin + width ? lane + argument : lane;
    default: return (lane ^ argument) < begin + width ? lane ^ argument : lane;
  }
}

void Device::complete(unsigned mask, Thread** lanes) {
  unsigned char given[kWarp][8];
  memset(given, 0xff, sizeof given);  // what a lane outside the mask gives: undefined
  unsigned ballot = 0;
  int total = 0, least = INT32_MAX, most = INT32_MIN;
  for (unsigned i = 0; i < kWarp; ++i) {
    if (!(mask >> i & 1)) continue;
    memcpy(given[i], lanes[i]->exchange->value, 8);
    int number;
    memcpy(&number, given[i], 4);
    ballot |= static_cast<unsigned>(number != 0) << i;
    total = static_cast<int>(static_cast<unsigned>(total) + static_cast<unsigned>(number));
    least = std::min(least, number), most = std::max(most, number);
  }
  for (unsigned i = 0; i < kWarp; ++i) {
    if (!(mask >> i & 1)) continue;
    Exchange& e = *lanes[i]->exchange;
    const auto give = [&e](unsigned result) { memcpy(e.value, &result, 4); };
    switch (e.kind) {
      case Exchange::sync: break;
      case Exchange::any: give(ballot != 0); break;
      case Exchange::all: give(ballot == mask); break;
      case Exchange::ballot: give(ballot); break;
      case Exchange::sum: give(total); break;
      case Exchange::least: give(least); break;
      case Exchange::most: give(most); break;
      default: memcpy(e.value, given[source(e, i) % kWarp], 8);
    }
  }
}

Device& Device::device() {
  static Device* const one = new Device;  // never destroyed: nor are its stacks
  return *one;
}

Device& the() { return Device::device(); }

std::mutex turn;

}  // namespace

void launch(const Config& c, void (*body)(void*), void* context) {
  const bool flat = c.grid.y == 1 && c.grid.z == 1 && c.block.y == 1 && c.block.z == 1;
  if (!flat || c.grid.x < 1 || c.grid.x > INT32_MAX || c.block.x < 1 || c.block.x > 1024) return set_error(cudaErrorInvalidConfiguration);
  if (c.shared > kShared) return set_error(cudaErrorInvalidValue);
  const std::lock_guard<std::mutex> lock(turn);
  const std::string failure = the().run(c, body, context);
  if (!failure.empty()) set_error(cudaErrorLaunchFailure, failure.c_str());
}

void* shared(const void* key, size_t size, size_t alignment) { return the().shared(key, size, alignment); }
void* dynamic_shared() { return the().dynamic_shared(); }
int barrier(Vote vote, bool yes, Site site) { return the().barrier(vote, yes, site); }
void exchange(Exchange& e) { the().exchange(e); }
void yield() { the().yield(); }

}  // namespace emu

// The order in which blocks and threads go on from here.
extern "C" __attribute__((visibility("default"))) void emu_seed(unsigned n) { emu::the().seed(n); }
