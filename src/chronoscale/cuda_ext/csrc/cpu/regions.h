// Regions of a replay: streams whose rows wait for one another, are launched by one host, or share resources. Other regions reach one only
// through collectives. Union-find over streams, hosts and resources: nearly linear.
#pragma once

#include <cstdint>
#include <vector>

#include "plan.h"
#include "sharing.h"

namespace cs {

class Regions {
 public:
  // Finds the regions; none where no row takes resources: without events none has a clock.
  Regions(const Rows& rows, const Hosts& hosts, const Takes& takes);

  int32_t count() const { return static_cast<int32_t>(first_.size()) - 1; }
  int64_t streams() const { return static_cast<int64_t>(of_.size()); }  // 0 where there are no regions
  int32_t of(int32_t stream) const { return of_[stream]; }
  const int32_t* begin(int32_t region) const { return streams_.data() + first_[region]; }
  const int32_t* end(int32_t region) const { return streams_.data() + first_[region + 1]; }

 private:
  void join(int64_t first, int64_t second);
  int32_t root(int64_t node);

  std::vector<int32_t> above_;  // parents of streams, hosts and resources, while they are joined
  std::vector<int32_t> of_, streams_, first_;
};

}  // namespace cs
