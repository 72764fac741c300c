// Common code of the samplers of temporal neighbours: roots in groups, their rows of the T-CSR, and the threads that sample them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "crew.h"
#include "pool.h"
#include "splitmix.h"

namespace cs {

constexpr int64_t kGroup = 32;          // roots that a thread samples at once
constexpr int64_t kTask = 1 << 11;      // roots of a task
constexpr int64_t kMostFanout = 1024;

// Rows of a T-CSR, and the roots whose neighbours are wanted: node[i] before event before[i].
struct Roots {
  const int64_t* indptr;
  const int32_t* neighbor;
  const int32_t* event;
  int64_t entries;
  int64_t roots;
  const int32_t* node;
  const int32_t* before;
};

// Returns the key of a root's random draws, which depends only on the seed, the node and `before`.
inline uint64_t key_of_root(uint64_t seed, int32_t node, int32_t before) {
  return mixed(seed ^ mixed(static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32 | static_cast<uint32_t>(before)));
}

inline bool within(const int32_t* ids, int64_t count, int64_t least, int64_t below) {
  return std::all_of(ids, ids + count, [=](int32_t id) { return id >= least && id < below; });
}

// Counts the events before `bound` among a row's first `length`; by a binary search without branches, so that none is mispredicted.
inline int64_t earlier(const int32_t* events, int64_t length, int32_t bound) {
  const int32_t* from = events;
  for (int64_t left = length; left > 1;) {
    const int64_t half = left / 2;
    __builtin_prefetch(from + half / 2);
    __builtin_prefetch(from + half + half / 2);
    from += from[half - 1] < bound ? half : 0;
    left -= half;
  }
  return from - events + (length > 0 && *from < bound);
}

// Finds begin and length of the rows of roots [first, last). Returns false where one does not lie within the entries.
inline bool find_rows(const Roots& s, int64_t first, int64_t last, int64_t* begin, int64_t* length) {
  for (int64_t i = first; i < last; ++i) {
    if (s.node[i] >= 0) __builtin_prefetch(s.indptr + s.node[i]);
  }
  for (int64_t i = first; i < last; ++i) {
    const int32_t v = s.node[i];
    begin[i - first] = v < 0 ? 0 : s.indptr[v];
    const int64_t end = v < 0 ? 0 : s.indptr[v + 1];
    if (begin[i - first] < 0 || end < begin[i - first] || end > s.entries) return false;
    length[i - first] = end - begin[i - first];
    __builtin_prefetch(s.event + begin[i - first] + length[i - first] / 2);
  }
  return true;
}

// Calls sample(first, last) for all groups of roots: on the crew where there is one and `threads` is 0, each thread with its part.
// CS_ERROR_ARGUMENT where one call returns false.
template <class F>
int over_roots(int64_t roots, int threads, F sample) {
  std::atomic<bool> sound{true};
  const auto range = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i += kGroup) {
      if (!sample(i, std::min(last, i + kGroup))) sound = false;
    }
  };
  auto task = [&](int64_t at, int) { range(at * kTask, std::min(roots, (at + 1) * kTask)); };
  auto part = [&](int at, int parts) {
    const int64_t each = (roots + parts - 1) / parts;
    range(std::min(roots, at * each), std::min(roots, (at + 1) * each));
  };
  return guarded([&] {
    if (threads || !by_crew(part)) parallel((roots + kTask - 1) / kTask, threads ? threads : cs::threads(), task);
    return sound ? CS_OK : CS_ERROR_ARGUMENT;
  });
}

}  // namespace cs
