// Progressive filling of shared resources.
#include "sharing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace cs {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kFew = 24;  // activities up to which a round looks at all of them

}  // namespace

Sharing::Sharing(const Takes& takes, int64_t streams) : takes_(takes) {
  if (!takes.ptr) return;
  of_.resize(streams);
  in_.resize(takes.resources);
}

bool Sharing::enter(int32_t stream, int64_t row, int64_t ns, int64_t now) {
  Activity& a = of_[stream];
  const double left = static_cast<double>(ns);
  a.row = row;
  a.settled = now;
  a.was = {now, -1, left, 0};
  a.is = {now, now + ns, left, 1};
  a.demand = takes_.demand[row];
  a.uses.clear();
  bool known = true;
  for (int64_t p = takes_.ptr[row]; p < takes_.ptr[row + 1]; ++p) {
    const double share = takes_.share[p];
    a.uses.push_back({takes_.resource[p], share, share / a.demand});
    Resource& r = in_[takes_.resource[p]];
    r.streams.push_back(stream);
    r.load += units(share);
    r.over |= r.load > kWhole;
    if (!r.over) continue;
    known = false;
    touch(takes_.resource[p]);
  }
  if (!known) a.is = a.was;
  return known;
}

void Sharing::leave(int32_t stream) {
  Activity& a = of_[stream];
  for (const Use& use : a.uses) {
    Resource& r = in_[use.resource];
    *std::find(r.streams.begin(), r.streams.end(), stream) = r.streams.back();
    r.streams.pop_back();
    r.load -= units(use.share);
    if (r.over) touch(use.resource);
  }
  a.row = -1;
}

// Computes the speeds of a stream's activity and of those that full resources join to it; no other speed depends on theirs.
void Sharing::share(int32_t stream) {
  joined_.clear();
  full_.clear();
  join(stream);
  for (size_t k = 0; k < joined_.size(); ++k) {
    for (const Use& use : of_[joined_[k]].uses) {
      Resource& r = in_[use.resource];
      if (r.load <= kWhole || full(r)) continue;
      r.round = round_;
      r.room = 1;
      full_.push_back(use.resource);
      for (const int32_t s : r.streams) join(s);
    }
  }
  if (full_.empty()) {
    of_[stream].next = 1;
    return;
  }
  const auto earlier = [of = of_.data()](int32_t a, int32_t b) { return of[a].row < of[b].row; };
  if (!std::is_sorted(joined_.begin(), joined_.end(), earlier)) std::sort(joined_.begin(), joined_.end(), earlier);
  fill();
}

// Raises the level of what all do, in the unit of demand, until each does all that it demands or has a full resource.
void Sharing::fill() {
  if (joined_.size() <= kFew) fill_few(); else fill_many();
}

void Sharing::freeze_at(Activity& a, double level) {
  a.next = a.demand <= level ? 1 : level / a.demand;
  for (const Use& use : a.uses) in_[use.resource].room -= use.share * a.next;
}

void Sharing::fill_few() {
  Activity* const of = of_.data();
  Resource* const in = in_.data();
  for (open_ = joined_; !open_.empty();) {
    double level = kNever;
    for (const int32_t r : full_) in[r].slope = 0;
    for (const int32_t s : open_) {
      level = std::min(level, of[s].demand);
      for (const Use& use : of[s].uses) in[use.resource].slope += use.weight;  // only full ones are read
    }
    for (const int32_t r : full_) {
      in[r].level = in[r].slope > 0 ? in[r].room / in[r].slope : kNever;
      level = std::min(level, in[r].level);
    }
    size_t growing = 0;
    for (const int32_t s : open_) {
      Activity& a = of[s];
      bool saturated = false;
      for (const Use& use : a.uses) saturated |= full(in[use.resource]) & (in[use.resource].level <= level);
      if (a.demand > level && !saturated) {
        open_[growing++] = s;
        continue;
      }
      freeze_at(a, level);
    }
    open_.resize(growing);
  }
}

// The same with the same sums, where a collective joins the resources of many ranks: a round looks only at what the one before changed.
// O(uses log resources) where a resource has few activities, in place of O(rounds * uses).
void Sharing::fill_many() {
  Activity* const of = of_.data();
  Resource* const in = in_.data();
  const auto later = std::greater<std::pair<double, int32_t>>();
  for (const int32_t r : full_) in[r].to = 0;
  for (const int32_t s : joined_) {
    of[s].open = true;
    for (const Use& use : of[s].uses) in[use.resource].to += full(in[use.resource]);
  }
  int32_t end = 0;
  for (const int32_t r : full_) {
    in[r].from = end;
    end += in[r].to;
    in[r].to = in[r].from;
  }
  members_.resize(end);
  for (const int32_t s : joined_) {  // by row, so that sums are those of fill_few
    for (const Use& use : of[s].uses) {
      if (full(in[use.resource])) members_[in[use.resource].to++] = {s, use.weight};
    }
  }
  const auto relevel = [&](int32_t number) {
    Resource& r = in[number];
    r.slope = 0;
    for (int32_t k = r.from; k < r.to; ++k) {
      if (of[members_[k].stream].open) r.slope += members_[k].weight;
    }
    r.level = r.slope > 0 ? r.room / r.slope : kNever;
  };
  levels_.clear();
  for (const int32_t r : full_) {
    relevel(r);
    levels_.push_back({in[r].level, r});
  }
  std::make_heap(levels_.begin(), levels_.end(), later);
  by_demand_ = joined_;
  std::stable_sort(by_demand_.begin(), by_demand_.end(), [of](int32_t a, int32_t b) { return of[a].demand < of[b].demand; });
  size_t next = 0;
  for (size_t left = joined_.size(); left;) {
    while (!of[by_demand_[next]].open) ++next;
    while (!levels_.empty() && levels_.front().first != in[levels_.front().second].level) {
      std::pop_heap(levels_.begin(), levels_.end(), later);
      levels_.pop_back();
    }
    const double level = std::min(of[by_demand_[next]].demand, levels_.empty() ? kNever : levels_.front().first);
    frozen_.clear();
    const auto freeze = [&](int32_t s) {
      if (!of[s].open) return;
      of[s].open = false;
      frozen_.push_back(s);
    };
    for (; next < by_demand_.size() && of[by_demand_[next]].demand <= level; ++next) freeze(by_demand_[next]);
    while (!levels_.empty() && levels_.front().first <= level) {
      const auto [was, number] = levels_.front();
      std::pop_heap(levels_.begin(), levels_.end(), later);
      levels_.pop_back();
      if (was != in[number].level) continue;
      for (int32_t k = in[number].from; k < in[number].to; ++k) freeze(members_[k].stream);
    }
    std::sort(frozen_.begin(), frozen_.end(), [of](int32_t a, int32_t b) { return of[a].row < of[b].row; });
    changed_.clear();
    for (const int32_t s : frozen_) {
      freeze_at(of[s], level);
      for (const Use& use : of[s].uses) {
        if (full(in[use.resource])) changed_.push_back(use.resource);
      }
    }
    left -= frozen_.size();
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const int32_t r : changed_) {
      relevel(r);
      if (in[r].level == kNever) continue;
      levels_.push_back({in[r].level, r});
      std::push_heap(levels_.begin(), levels_.end(), later);
    }
  }
}

// Sets the activity's state from that before `now`, however often it is settled at `now`; returns whether its end or speed changed.
bool Sharing::set(Activity& a, int64_t now) {
  if (a.settled != now) a.was = a.is;
  a.settled = now;
  State to = a.was;
  if (a.next != to.speed) {
    to.left -= static_cast<double>(now - to.since) * to.speed;
    to.since = now;
    to.speed = a.next;
    to.end = now + std::max<int64_t>(1, std::llrint(to.left / to.speed));
  }
  if (to.end == a.is.end && to.speed == a.is.speed) return false;
  a.is = to;
  return true;
}

}  // namespace cs
