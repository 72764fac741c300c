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
  a.since = now;
  a.left = static_cast<double>(ns - takes_.delay[row]);
  a.speed = 0;
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
  if (of_[stream].joined) return;
  of_[stream].joined = true;
  joined_.push_back(stream);
}

// All whose speed may change: those that enter, those on a resource that is or was full and has changed, and whoever a full one joins to them.
void Sharing::gather() {
  joined_.clear();
  full_.clear();
  for (const int32_t s : entered_) join(s);
  entered_.clear();
  for (const int32_t number : dirty_) {
    Resource& r = in_[number];
    const bool over = r.load > kWhole;
    if (over || r.over) std::for_each(r.streams.begin(), r.streams.end(), [&](int32_t s) { join(s); });
    r.over = over;
    r.dirty = false;
  }
  dirty_.clear();
  for (size_t k = 0; k < joined_.size(); ++k) {
    const int64_t row = of_[joined_[k]].row;
    for (int64_t p = takes_.ptr[row]; p < takes_.ptr[row + 1]; ++p) {
      Resource& r = in_[takes_.resource[p]];
      if (r.load <= kWhole || r.seen) continue;
      r.seen = true;
      r.room = 1;
      full_.push_back(takes_.resource[p]);
      for (const int32_t s : r.streams) join(s);
    }
  }
  std::sort(joined_.begin(), joined_.end(), [&](int32_t a, int32_t b) { return of_[a].row < of_[b].row; });
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
        if (r.seen) r.slope += takes_.share[p] / a.demand;
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
      bool held = false;
      for (int64_t p = begin; p < end; ++p) held |= in_[takes_.resource[p]].seen && in_[takes_.resource[p]].level <= level;
      if (a.demand > level && !held) continue;
      a.next = a.demand <= level ? 1 : level / a.demand;
      --open;
      for (int64_t p = begin; p < end; ++p) {
        Resource& r = in_[takes_.resource[p]];
        if (r.seen) r.room -= takes_.share[p] * a.next;
      }
    }
  }
}

bool Sharing::set(Activity& a, int64_t now) {
  if (a.next == a.speed) return false;
  a.left -= static_cast<double>(now - a.since) * a.speed;
  a.since = now;
  a.speed = a.next;
  a.end = now + std::max<int64_t>(0, std::llrint(a.left / a.speed));
  lingers_ |= a.end == now;
  ++a.version;
  return true;
}

}  // namespace cs
