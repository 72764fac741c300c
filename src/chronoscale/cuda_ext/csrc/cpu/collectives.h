// Collectives of a replay: which streams have joined, and how soon regions may reach one another, which they do only through collectives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan.h"
#include "regions.h"
#include "sharing.h"

namespace cs {

constexpr int32_t kNone = -1;

struct Collective {
  int64_t first = -1, latest = 0;  // its first row; the latest earliest start of those that joined
  int32_t missing = 0, joined = kNone, part = kNone;  // streams to come; the list of those that joined; the last row's part
  bool abroad = false;                                // has several parts
};

class Collectives {
 public:
  Collectives(const Rows& rows, const Regions& regions)
      : rows_(rows), regions_(regions), of_(rows.groups), at_(rows.streams, -1), part_of_(regions.count() ? rows.count : 0),
        horizon_(regions.count(), -1) {}

  Collective& of(int64_t row) { return of_[rows_.collective[row]]; }

  // Adds a row, in the order of rows. Rows of one region that are listed one after another are a part; where a region has several, a
  // complete one may make its horizon nearer than it is, never farther.
  void add(int64_t row) {
    Collective& c = of(row);
    if (c.first < 0) c.first = row;
    ++c.missing;
    if (!regions_.count()) return;
    const int32_t region = regions_.of(rows_.stream[row]);
    if (c.part == kNone || part_[c.part].region != region) {
      c.abroad = c.part != kNone;
      c.part = static_cast<int32_t>(part_.size());
      part_.push_back({region, 0});
    }
    part_of_[row] = c.part;
    ++part_[c.part].missing;
  }

  // Joins a stream whose row could start at `ready`; returns whether all have joined.
  bool join(int32_t stream, int64_t row, int64_t ready) {
    Collective& c = of(row);
    c.latest = std::max(c.latest, ready);
    at_[stream] = row;
    if (regions_.count() && !--part_[part_of_[row]].missing && c.abroad) horizon_[regions_.of(stream)] = -1;
    return !--c.missing;
  }

  void leave(int32_t stream) { at_[stream] = -1; }

  // Returns whether no other region can reach this one before `now`. start: of rows, -1 where unknown.
  bool clear(int32_t region, int64_t now, const int64_t* start, const Takes& takes) {
    if (now > horizon_[region]) horizon_[region] = horizon(region, start, takes);
    return now <= horizon_[region];
  }

 private:
  struct Part {
    int32_t region, missing;
  };

  // Returns the first time at which others may reach a region, by the collectives that its streams have joined. It comes no nearer until a
  // part is complete; an incomplete one waits for this region itself. Events of a collective that takes resources are of its first row's
  // region.
  int64_t horizon(int32_t region, const int64_t* start, const Takes& takes) {
    int64_t first = std::numeric_limits<int64_t>::max();
    for (const int32_t* s = regions_.begin(region); s != regions_.end(region); ++s) {
      const int64_t row = at_[*s];
      if (row < 0) continue;
      const Collective& c = of(row);
      if (!c.abroad) continue;
      const bool shares = takes.any(c.first, rows_.ns[c.first]), here = shares && regions_.of(rows_.stream[c.first]) == region;
      const int64_t ns = rows_.ns[shares ? c.first : row];
      if (!c.missing) {
        if (!here) first = std::min(first, start[row] + ns);
      } else if (!part_[part_of_[row]].missing) {
        first = std::min(first, c.latest + (here ? 0 : ns));
      }
    }
    return first;
  }

  Rows rows_;
  const Regions& regions_;
  std::vector<Collective> of_;
  std::vector<int64_t> at_;  // of streams: the row with which they joined, -1
  std::vector<Part> part_;
  std::vector<int32_t> part_of_;  // of rows
  std::vector<int64_t> horizon_;  // of regions, -1: not known
};

}  // namespace cs
