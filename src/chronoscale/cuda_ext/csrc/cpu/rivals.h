// Rivals of a replay: the streams whose rows take one resource, and how much of it they take at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan.h"
#include "sharing.h"

namespace cs {

struct Rival {
  int32_t stream;
  int64_t most;  // in units of shares
};

class Rivals {
 public:
  Rivals(const Rows& rows, const Takes& takes);

  // Returns whether a row overloads no resource, whatever others take meanwhile. later(stream): whether a stream starts no row before this
  // one ends; false where that is not known.
  template <class F>
  bool fits(int64_t row, F later) const {
    for (int64_t p = takes_.ptr[row]; p < takes_.ptr[row + 1]; ++p) {
      const std::vector<Rival>& rivals = of_[takes_.resource[p]];
      if (rivals.size() > kListed) return false;
      int64_t load = units(takes_.share[p]);
      for (const Rival& rival : rivals) {
        if (rival.stream != stream_[row] && !later(rival.stream)) load += rival.most;
      }
      if (load > kWhole) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kListed = 16;  // a longer list would take longer to look through than it saves

  Takes takes_;
  const int32_t* stream_;
  std::vector<std::vector<Rival>> of_;  // of resources; incomplete where there are more than kListed
};

}  // namespace cs
