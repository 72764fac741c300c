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

  const std::vector<Rival>& of(int32_t resource) const { return of_[resource]; }

  // Returns whether more streams take a resource than are listed.
  bool many(int32_t resource) const { return of_[resource].size() > kListed; }

 private:
  static constexpr std::size_t kListed = 16;  // a longer list would take longer to look through than it saves

  std::vector<std::vector<Rival>> of_;
};

}  // namespace cs
