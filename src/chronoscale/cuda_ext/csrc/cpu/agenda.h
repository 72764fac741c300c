// Event queue of a replay, by region: each region has a clock of its own, which runs ahead of the others' for as long as no unknown event
// can reach it, so that a region's data stay in the cache. Logical processes of a conservative parallel simulation (Chandy and Misra, 1979)
// that run in turns on one thread. O(log events) an event.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace cs {

struct Event {
  int64_t time;
  int32_t stream;
  uint32_t version;  // of the predicted end, which is void once another is set; 0: the row starts to share
  bool operator>(const Event& other) const { return time > other.time; }
};

class Agenda {
 public:
  explicit Agenda(int32_t regions) : of_(regions) {}

  void push(int32_t region, Event e) {
    std::vector<Event>& events = of_[region].events;
    events.push_back(e);
    std::push_heap(events.begin(), events.end(), std::greater<>());
    touch(region);
  }

  // Marks a region that has more events, or that others reach later than when it stopped.
  void touch(int32_t region) {
    if (of_[region].touched) return;
    of_[region].touched = true;
    touched_.push_back(region);
  }

  // Runs all events. clear(region, time): whether no event that is not pushed yet can reach the region before `time`. happen(event) may
  // push more, also of that time. settle(time): called after all events of a region at one time, once more if more come. Where no region is
  // clear the earliest events of all happen: nothing can reach any region sooner.
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
  using Waiting = std::pair<int64_t, int32_t>;  // time, region
  struct Region {
    std::vector<Event> events;
    int64_t waits = -1;  // of the last entry of waiting_
    bool touched = false;
  };

  template <class Clear, class Happen, class Settle>
  void ahead(int32_t r, Clear& clear, Happen& happen, Settle& settle) {
    while (!of_[r].events.empty()) {
      const int64_t now = of_[r].events.front().time;
      if (!clear(r, now)) {
        wait(r, now);
        break;
      }
      while (due(r, now)) happen(pop(r));
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
      for (const int32_t r = touched_[k]; due(r, now);) happen(pop(r));
    }
    settle(now);
  }

  void wait(int32_t r, int64_t time) {
    if (of_[r].waits == time) return;
    of_[r].waits = time;
    waiting_.push_back({time, r});
    std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
  }

  bool due(int32_t r, int64_t now) const { return !of_[r].events.empty() && of_[r].events.front().time == now; }

  Event pop(int32_t r) {
    std::vector<Event>& events = of_[r].events;
    const Event e = events.front();
    std::pop_heap(events.begin(), events.end(), std::greater<>());
    events.pop_back();
    return e;
  }

  std::vector<Region> of_;
  std::vector<int32_t> touched_;
  std::vector<Waiting> waiting_;  // heap of regions that were not clear, the earliest first; some have gone on since
};

}  // namespace cs
