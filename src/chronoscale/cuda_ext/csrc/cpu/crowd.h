// Contended rows of a replay: those that slow one another down.
#pragma once

#include <cstdint>
#include <vector>

#include "sharing.h"

namespace cs {

// Set of the rows that run while a resource of theirs is overloaded. All others take as long as uncontended, and slow none down: a replay
// in which only the rows of a crowd share, and that adds none to it, equals the replay in which all share.
class Crowd {
 public:
  // contended: null, or of each row whether it is in the crowd from the start.
  Crowd(const Takes& takes, int64_t rows, const int64_t* ns, const uint8_t* contended);

  bool empty() const { return !count_; }
  bool has(int64_t row) const { return !among_.empty() && among_[row]; }

  // Adds the rows that a replay overlaps on overloaded resources; returns whether any is new.
  bool grow(const int64_t* start, const int64_t* end);

  // Sets `contended` of the rows in the crowd.
  void mark(uint8_t* contended) const;

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
    int64_t last = 0, load = 0;  // latest begin and units of the rows in `active`, some of which have ended
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
