// Attention to sampled slots (cs_slots): blocks of targets are tasks of the thread pool. Sums over targets are added block by block, and
// the blocks depend only on the sizes: results do not depend on the number of threads.
#include "slots.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "clock.h"
#include "kernels.h"
#include "pool.h"

namespace {

using cs::Clock;
using cs::padded;
using cs::Slots;
using cs::SlotsGrad;

constexpr int64_t kBlock = 32;                    // targets of one task
constexpr int64_t kPartials = 256;                // blocks that have sums of their own
constexpr int64_t kColumns = 16;                  // of the sources' gradients, that a task has at least
constexpr int64_t kMostFanout = 1024;
constexpr int64_t kWorthHelp = int64_t{1} << 18;  // numbers of all slots together

// Scratch memory of every thread, aligned to cache lines.
template <class T>
struct Rooms {
  int64_t each;
  std::vector<T> storage;

  Rooms(const Slots<T>& s, int threads) {
    const cs::Layout l = cs::layout_of(s);
    each = s.fanout * (l.across + l.clock) + 3 * s.heads * l.across + (2 * s.heads + 4) * padded<T>(s.fanout) + 4 * l.clock;
    storage.resize(static_cast<size_t>(threads * each + padded<T>(1)));
  }

  T* of(int worker) {
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(storage.data()) + 63) & ~uintptr_t{63};
    return reinterpret_cast<T*>(begin) + worker * each;
  }
};

template <class T>
bool empty(const Slots<T>& s) {
  return s.targets == 0 || s.fanout == 0 || s.width + s.edges + s.clock == 0;
}

template <class T>
bool fits(const Slots<T>& s, const T* frequency, const T* phase) {
  if (s.targets < 0 || s.fanout < 0 || s.fanout > kMostFanout || s.heads < 1 || s.width < 0 || s.edges < 0 || s.clock < 0) return false;
  if (s.sources < 0) return false;
  if (s.targets == 0 || s.fanout == 0) return true;
  if (!s.slot || !s.mask) return false;
  for (int64_t i = 0; i < s.targets * s.fanout; ++i) {
    if (s.mask[i] && (s.slot[i] < 0 || s.slot[i] >= s.sources)) return false;
  }
  if (s.clock > 0 && (!s.elapsed || !frequency || !phase)) return false;
  return empty(s) || (s.query && (s.width == 0 || s.sources == 0 || s.source) && (s.edges == 0 || s.edge));
}

template <class T>
int limit(const Slots<T>& s) {
  return s.targets * s.fanout * (s.width + s.edges + s.clock) < kWorthHelp ? 1 : cs::threads();
}

template <class T>
int run(Slots<T> s, const T* frequency, const T* phase, T* weights, T* out) {
  if (!fits(s, frequency, phase)) return CS_ERROR_ARGUMENT;
  if (empty(s)) return CS_OK;
  if (!weights || !out) return CS_ERROR_ARGUMENT;
  const Clock clock(s, frequency, phase);
  const int64_t blocks = (s.targets + kBlock - 1) / kBlock;
  const int threads = static_cast<int>(std::min<int64_t>(limit(s), blocks));
  Rooms<T> rooms(s, threads);
  auto body = [&](int64_t block, int worker) {
    CS_CALL(attend, s, block * kBlock, std::min(s.targets, (block + 1) * kBlock), rooms.of(worker), weights, out);
  };
  cs::parallel(blocks, threads, body);
  return CS_OK;
}

template <class T>
int run(SlotsGrad<T> s, const T* frequency, const T* phase, T* into_frequency, T* into_phase) {
  if (!fits(s, frequency, phase) || (into_frequency == nullptr) != (into_phase == nullptr)) return CS_ERROR_ARGUMENT;
  if (empty(s)) return CS_OK;
  if (!s.weights || !s.into) return CS_ERROR_ARGUMENT;
  s.into_clock = into_frequency && s.clock > 0;
  if (s.edges == 0) s.into_edge = nullptr;
  if (s.width == 0) s.into_source = nullptr;
  const Clock clock(s, frequency, phase);
  const int64_t block = std::max(kBlock, (s.targets + kPartials - 1) / kPartials);
  const int64_t blocks = (s.targets + block - 1) / block, sums = 2 * padded<T>(s.clock);
  const int threads = static_cast<int>(std::min<int64_t>(limit(s), blocks));
  std::vector<double> partial(static_cast<size_t>(s.into_clock ? blocks * sums : 0));
  const bool apart = s.into_source && threads > 1;  // one thread adds to sources as it comes to them
  std::unique_ptr<T[]> handed(apart ? new T[static_cast<size_t>(2 * s.targets * s.heads * s.fanout)] : nullptr);
  s.handed = handed.get();
  Rooms<T> rooms(s, threads);
  auto body = [&](int64_t at, int worker) {
    CS_CALL(attend_grad, s, at * block, std::min(s.targets, (at + 1) * block), rooms.of(worker), partial.data() + (s.into_clock ? at * sums : 0));
  };
  cs::parallel(blocks, threads, body);
  if (s.into_clock) {
    for (int64_t at = 1; at < blocks; ++at) {
      for (int64_t c = 0; c < sums; ++c) partial[c] += partial[at * sums + c];
    }
    for (int64_t c = 0; c < s.clock; ++c) {
      into_frequency[c] = static_cast<T>(partial[c]);
      into_phase[c] = static_cast<T>(partial[sums / 2 + c]);
    }
  }
  if (apart) {
    const int64_t packs = (s.width + kColumns - 1) / kColumns, tasks = std::min<int64_t>(threads, packs);
    auto columns = [&](int64_t task, int worker) {
      const int64_t from = packs * task / tasks * kColumns, to = std::min(s.width, packs * (task + 1) / tasks * kColumns);
      CS_CALL(attend_columns, s, from, to, rooms.of(worker));
    };
    cs::parallel(tasks, threads, columns);
  }
  return CS_OK;
}

}  // namespace

#define CS_OPERANDS(T)                                                                      \
  Slots<T>{targets, fanout, heads, width, edges, clock, sources, query, source, slot, mask, \
           elapsed, edge, nullptr, nullptr, 0, 0, keep, by_head != 0}
#define CS_DEFINE(kind, T)                                                                                            \
  int cs_slots_##kind(CS_SLOTS(T), T* weights, T* out) {                                                              \
    return cs::guarded([&] { return run(CS_OPERANDS(T), frequency, phase, weights, out); });                          \
  }                                                                                                                   \
  int cs_slots_grad_##kind(CS_SLOTS(T), const T* weights, const T* into, T* into_query, T* into_source, T* into_edge, \
                           T* into_frequency, T* into_phase) {                                                        \
    const SlotsGrad<T> s{CS_OPERANDS(T), weights, into, into_query, into_source, into_edge, false, nullptr};          \
    return cs::guarded([&] { return run(s, frequency, phase, into_frequency, into_phase); });                         \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
#undef CS_OPERANDS
