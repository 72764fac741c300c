// Which rows of a replay are in one another's way.
#pragma once

#include <cstdint>
#include <vector>

#include "sharing.h"

namespace cs {

// Rows that are under way while more is asked of a resource of theirs than it has. Whoever never is takes as long as alone, and slows nobody
// down: a replay in which only the rows of a crowd share, and that adds none to it, is that in which all share.
class Crowd {
 public:
  // known: null, or of each row whether it is among them from the start.
  Crowd(const Takes& takes, int64_t rows, const int64_t* ns, const uint8_t* known);

  bool empty() const { return !count_; }
  bool has(int64_t row) const { return !among_.empty() && among_[row]; }

  // Adds those of a replay. Whether there are any that it had not.
  bool grow(const int64_t* start, const int64_t* end);

  // Sets what has been found, of each row.
  void tell(uint8_t* known) const;

 private:
  struct Begin {
    int64_t time;
    int32_t row;
  };
  struct Active {
    int64_t end, units;
    int32_t row;
  };
  struct Resource {
    bool disordered = false;
    int64_t last = 0, load = 0;  // of those in `active`, some of which are over: when one began, units
    std::vector<Active> active;
  };

  void sweep(const int64_t* end, bool sorted);
  void settle(Resource& r);
  void sort();
  bool fill();
  void add(int64_t row);

  Takes takes_;
  std::vector<int32_t> takers_;
  std::vector<uint8_t> among_;
  std::vector<Begin> begins_, spare_;
  std::vector<Resource> in_;
  int64_t count_ = 0;
  int turn_ = 0;
};

}  // namespace cs
