// Resources that activities share: their speeds by max-min fairness, with the sums of simulator/sharing/resources.py in their order.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace cs {

// Requests of rows for resources, as CSR. Row i has entries [ptr[i], ptr[i + 1]) of resource and share, of the resource's capacity while it
// runs uncontended; delay[i] ns at its start in which it uses none; its demand, in a unit that all have in common. Shares are multiples of
// 2^-36.
struct Takes {
  int64_t resources;
  const int64_t* delay;
  const double* demand;
  const int64_t* ptr;
  const int32_t* resource;
  const double* share;

  // Returns whether a row of `ns` takes any.
  bool any(int64_t row, int64_t ns) const { return ptr && ptr[row] < ptr[row + 1] && delay[row] < ns; }

  void fetch(int64_t row) const {
    if (!ptr) return;
    __builtin_prefetch(ptr + row);
    __builtin_prefetch(delay + row);
    __builtin_prefetch(demand + row);
  }
  void fetch_entries(int64_t row) const {
    if (!ptr) return;
    __builtin_prefetch(resource + ptr[row]);
    __builtin_prefetch(share + ptr[row]);
  }
};

constexpr int64_t kWhole = int64_t{1} << 36;  // a resource, in units of shares

inline int64_t units(double share) { return static_cast<int64_t>(share * static_cast<double>(kWhole)); }

// Activities of a stream each, at most one at a time: progressive filling (max-min fairness) among those that a full resource joins.
class Sharing {
 public:
  Sharing(const Takes& takes, int64_t streams);

  bool active(int32_t stream) const { return of_[stream].row >= 0; }

  // Starts a row that has `ns` of work at full speed; returns whether its end is known, now + ns, until a resource is overloaded.
  bool enter(int32_t stream, int64_t row, int64_t ns, int64_t now);
  void leave(int32_t stream);

  // Computes speeds after activities entered and left at `now`; calls ends(stream, time) of those whose end has changed. Running activities
  // end later than `now`, so that settling again after more have entered at `now` gives what settling once would have.
  template <class F>
  void settle(int64_t now, F ends) {
    ++round_;
    for (const int32_t number : dirty_) {
      in_[number].over = in_[number].load > kWhole;
      in_[number].dirty = false;
      for (const int32_t first : in_[number].streams) {
        if (of_[first].round == round_) continue;
        share(first);
        for (const int32_t s : joined_) {
          if (set(of_[s], now)) ends(s, of_[s].is.end);
        }
      }
    }
    dirty_.clear();
  }

 private:
  struct State {
    int64_t since = 0, end = -1;
    double left = 0, speed = 0;  // ns of work left at `since`; speed from then on
  };
  struct Use {
    int32_t resource;
    double share, weight;  // weight: share / demand
  };
  struct Member {
    int32_t stream;
    double weight;
  };
  struct Activity {
    int64_t row = -1, settled = -1, round = 0;
    bool open = false;  // still rises with the level, while many are filled
    State is, was;  // was: before the time at which it was settled last
    double next = 0, demand = 0;
    std::vector<Use> uses;
  };
  struct Resource {
    int64_t load = 0;  // in units
    int64_t round = 0;
    double room = 0, slope = 0, level = 0;
    int32_t from = 0, to = 0;  // its activities in members_, while many are filled
    bool over = false, dirty = false;  // over: overloaded now or when speeds were settled last
    std::vector<int32_t> streams;
  };

  // Marks a resource that is or was overloaded and has changed.
  void touch(int32_t resource) {
    if (in_[resource].dirty) return;
    in_[resource].dirty = true;
    dirty_.push_back(resource);
  }
  void share(int32_t stream);
  void fill();
  void fill_few();
  void fill_many();
  void freeze_at(Activity& a, double level);
  void join(int32_t stream) {
    if (of_[stream].round == round_) return;
    of_[stream].round = round_;
    joined_.push_back(stream);
  }
  bool full(const Resource& r) const { return r.round == round_; }  // marked while their component is collected
  bool set(Activity& a, int64_t now);

  Takes takes_;
  std::vector<Activity> of_;
  std::vector<Resource> in_;
  std::vector<int32_t> dirty_, joined_, full_, open_, by_demand_, frozen_, changed_;
  std::vector<Member> members_;  // of full resources, in order of rows
  std::vector<std::pair<double, int32_t>> levels_;  // heap of full resources by level, the lowest first; some have changed since
  int64_t round_ = 0;  // number of the settling, with which it marks the activities and full resources that it has visited
};

}  // namespace cs
