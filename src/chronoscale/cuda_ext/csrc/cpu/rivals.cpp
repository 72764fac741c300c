// Rivals for resources: one pass over what rows take.
#include "rivals.h"

#include <algorithm>

namespace cs {

Rivals::Rivals(const Rows& rows, const Takes& takes) : takes_(takes), stream_(rows.stream), of_(takes.ptr ? takes.resources : 0) {
  for (int64_t i = 0; i < rows.count && takes.ptr; ++i) {
    if (!takes.any(i, rows.ns[i])) continue;
    for (int64_t p = takes.ptr[i]; p < takes.ptr[i + 1]; ++p) {
      std::vector<Rival>& rivals = of_[takes.resource[p]];
      if (rivals.size() > kListed) continue;
      const int64_t share = units(takes.share[p]);
      const auto rival = std::find_if(rivals.begin(), rivals.end(), [&](const Rival& other) { return other.stream == rows.stream[i]; });
      if (rival == rivals.end()) {
        rivals.push_back({rows.stream[i], share});
      } else {
        rival->most = std::max(rival->most, share);
      }
    }
  }
}

}  // namespace cs
