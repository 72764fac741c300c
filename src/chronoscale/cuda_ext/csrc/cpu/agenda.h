// Events of a replay, by region: each region has a clock of its own, which runs ahead of the others' for as long as no unknown event can
// reach it, so that a region's data stay in the cache. Logical processes of a conservative parallel simulation (Chandy and Misra, 1979)
// that run in turns on one thread. A stream has one event at a time, so that a tournament of a region's streams finds its next one:
// O(log streams) an event, also where an event moves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "regions.h"

namespace cs {

class Agenda {
 public:
  explicit Agenda(const Regions& regions) : regions_(regions), of_(regions.count()), leaf_(regions.streams()) {
    size_t first = 0;
    for (int32_t r = 0; r < regions.count(); ++r) {
      const int64_t streams = regions.end(r) - regions.begin(r);
      of_[r].first = first;
      while (of_[r].leaves < streams) of_[r].leaves *= 2;
      for (int64_t k = 0; k < streams; ++k) leaf_[regions.begin(r)[k]] = static_cast<int32_t>(of_[r].leaves + k);
      first += 2 * of_[r].leaves;
    }
    nodes_.assign(first, kNever);
  }

  // Sets the time of a stream's event, in place of the one that it had.
  void set(int32_t stream, int64_t time) {
    const int32_t region = regions_.of(stream);
    put(of_[region], leaf_[stream], time);
    touch(region);
  }

  // Marks a region that has more events, or that others reach later than when it stopped.
  void touch(int32_t region) {
    if (of_[region].touched) return;
    of_[region].touched = true;
    touched_.push_back(region);
  }

  // Runs all events. clear(region, time): whether no event that is not set yet can reach the region before `time`. happen(stream, time) may
  // set more, also of that time, but of another stream. settle(time): called after all events of a region at one time, once more if more
  // come. Where no region is clear the earliest events of all happen: nothing can reach any region sooner.
  template <class Clear, class Happen, class Settle>
  void run(Clear clear, Happen happen, Settle settle) {
    while (!touched_.empty() || !waiting_.empty()) {
      while (!touched_.empty()) {
        const int32_t r = touched_.back();
        touched_.pop_back();
        ahead(r, clear, happen, settle);
      }
      if (!waiting_.empty()) together(happen, settle);
    }
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  using Waiting = std::pair<int64_t, int32_t>;  // time, region
  struct Region {
    size_t first = 0;     // of its nodes
    int64_t leaves = 1;   // a power of two; nodes 1 (the root) to 2 * leaves - 1, each the earlier of nodes 2k and 2k + 1
    int64_t waits = -1;   // of the last entry of waiting_
    bool touched = false;
  };

  template <class Clear, class Happen, class Settle>
  void ahead(int32_t r, Clear& clear, Happen& happen, Settle& settle) {
    for (int64_t now; (now = next(r)) != kNever;) {
      if (!clear(r, now)) {
        wait(r, now);
        break;
      }
      while (next(r) == now) happen_next(r, now, happen);
      settle(now);
    }
    of_[r].touched = false;
  }

  template <class Happen, class Settle>
  void together(Happen& happen, Settle& settle) {  // nothing, where all that waited have gone on
    const int64_t now = waiting_.front().first;
    while (!waiting_.empty() && waiting_.front().first == now) {
      of_[waiting_.front().second].waits = -1;
      touch(waiting_.front().second);
      std::pop_heap(waiting_.begin(), waiting_.end(), std::greater<>());
      waiting_.pop_back();
    }
    for (size_t k = 0; k < touched_.size(); ++k) {  // others are touched meanwhile
      for (const int32_t r = touched_[k]; next(r) == now;) happen_next(r, now, happen);
    }
    settle(now);
  }

  void wait(int32_t r, int64_t time) {
    if (of_[r].waits == time) return;
    of_[r].waits = time;
    waiting_.push_back({time, r});
    std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
  }

  int64_t next(int32_t r) const { return nodes_[of_[r].first + 1]; }

  // Lets the event of a region's stream at `now` happen, and removes it unless that has set another.
  template <class Happen>
  void happen_next(int32_t r, int64_t now, Happen& happen) {
    const Region& region = of_[r];
    const int64_t* nodes = &nodes_[region.first];
    int64_t k = 1;
    while (k < region.leaves) k = 2 * k + (nodes[2 * k] != now);
    happen(regions_.begin(r)[k - region.leaves], now);
    if (nodes[k] == now) put(region, k, kNever);
  }

  void put(const Region& region, int64_t k, int64_t time) {
    int64_t* nodes = &nodes_[region.first];
    nodes[k] = time;
    for (; k > 1; k /= 2) nodes[k / 2] = std::min(nodes[k], nodes[k ^ 1]);  // to the root: no branch to foresee
  }

  const Regions& regions_;
  std::vector<Region> of_;
  std::vector<int32_t> leaf_;   // of streams
  std::vector<int64_t> nodes_;  // of regions
  std::vector<int32_t> touched_;
  std::vector<Waiting> waiting_;  // heap of regions that were not clear, the earliest first; some have gone on since
};

}  // namespace cs
