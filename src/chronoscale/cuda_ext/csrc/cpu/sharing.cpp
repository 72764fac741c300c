// Progressive filling of shared resources.
#include "sharing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cs {

Sharing::Sharing(const Takes& takes, int64_t streams) : takes_(takes) {
  if (!takes.ptr) return;
  of_.resize(streams);
  in_.resize(takes.resources);
}

void Sharing::enter(int32_t stream, int64_t row, int64_t ns, int64_t now) {
  Activity& a = of_[stream];
  a.row = row;
  a.is = a.was = {now, -1, static_cast<double>(ns - takes_.delay[row]), 0};
  a.settled = -1;
  a.demand = takes_.demand[row];
  for (int64_t p = takes_.ptr[row]; p < takes_.ptr[row + 1]; ++p) {
    Resource& r = in_[takes_.resource[p]];
    r.streams.push_back(stream);
    r.load += units(takes_.share[p]);
    if (!r.dirty) dirty_.push_back(takes_.resource[p]);
    r.dirty = true;
  }
  entered_.push_back(stream);
}

void Sharing::leave(int32_t stream) {
  Activity& a = of_[stream];
  for (int64_t p = takes_.ptr[a.row]; p < takes_.ptr[a.row + 1]; ++p) {
    Resource& r = in_[takes_.resource[p]];
    *std::find(r.streams.begin(), r.streams.end(), stream) = r.streams.back();
    r.streams.pop_back();
    r.load -= units(takes_.share[p]);
    if (!r.dirty) dirty_.push_back(takes_.resource[p]);
    r.dirty = true;
  }
  a.row = -1;
  ++a.version;
}

void Sharing::join(int32_t stream) {
  if (of_[stream].round == round_) return;
  of_[stream].round = round_;
  joined_.push_back(stream);
}

// Lists the activities whose speeds may change: those that enter, and all on a resource that is or was full and has changed.
void Sharing::seed() {
  seeds_.swap(entered_);
  entered_.clear();
  for (const int32_t number : dirty_) {
    Resource& r = in_[number];
    const bool over = r.load > kWhole;
    if (over || r.over) seeds_.insert(seeds_.end(), r.streams.begin(), r.streams.end());
    r.over = over;
    r.dirty = false;
  }
  dirty_.clear();
}

// Computes the speeds of a stream's activity and of those that full resources join to it; no other speed depends on theirs.
void Sharing::share(int32_t stream) {
  joined_.clear();
  full_.clear();
  join(stream);
  for (size_t k = 0; k < joined_.size(); ++k) {
    const int64_t row = of_[joined_[k]].row;
    for (int64_t p = takes_.ptr[row]; p < takes_.ptr[row + 1]; ++p) {
      Resource& r = in_[takes_.resource[p]];
      if (r.load <= kWhole || full(r)) continue;
      r.round = round_;
      r.room = 1;
      full_.push_back(takes_.resource[p]);
      for (const int32_t s : r.streams) join(s);
    }
  }
  std::sort(joined_.begin(), joined_.end(), [&](int32_t a, int32_t b) { return of_[a].row < of_[b].row; });
  fill();
}

void Sharing::fill() {
  for (const int32_t s : joined_) of_[s].next = 0;
  for (size_t open = joined_.size(); open;) {
    double level = std::numeric_limits<double>::infinity();
    for (const int32_t r : full_) in_[r].slope = 0;
    for (const int32_t s : joined_) {
      const Activity& a = of_[s];
      if (a.next > 0) continue;
      level = std::min(level, a.demand);
      for (int64_t p = takes_.ptr[a.row]; p < takes_.ptr[a.row + 1]; ++p) {
        Resource& r = in_[takes_.resource[p]];
        if (full(r)) r.slope += takes_.share[p] / a.demand;
      }
    }
    for (const int32_t number : full_) {
      Resource& r = in_[number];
      r.level = r.slope > 0 ? r.room / r.slope : std::numeric_limits<double>::infinity();
      level = std::min(level, r.level);
    }
    for (const int32_t s : joined_) {
      Activity& a = of_[s];
      if (a.next > 0) continue;
      const int64_t begin = takes_.ptr[a.row], end = takes_.ptr[a.row + 1];
      bool saturated = false;
      for (int64_t p = begin; p < end; ++p) saturated |= full(in_[takes_.resource[p]]) && in_[takes_.resource[p]].level <= level;
      if (a.demand > level && !saturated) continue;
      a.next = a.demand <= level ? 1 : level / a.demand;
      --open;
      for (int64_t p = begin; p < end; ++p) {
        Resource& r = in_[takes_.resource[p]];
        if (full(r)) r.room -= takes_.share[p] * a.next;
      }
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
  ++a.version;
  return true;
}

}  // namespace cs
