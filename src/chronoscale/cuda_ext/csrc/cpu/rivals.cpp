// Rivals for resources: one pass over what rows take.
#include "rivals.h"

#include <algorithm>

namespace cs {

Rivals::Rivals(const Rows& rows, const Takes& takes) : of_(takes.ptr ? takes.resources : 0) {
  for (int64_t i = 0; i < rows.count && takes.ptr; ++i) {
    if (!takes.any(i, rows.ns[i])) continue;
    for (int64_t p = takes.ptr[i]; p < takes.ptr[i + 1]; ++p) {
      std::vector<Rival>& rivals = of_[takes.resource[p]];
      if (rivals.size() > kListed) continue;
      const auto same = std::find_if(rivals.begin(), rivals.end(), [&](const Rival& rival) { return rival.stream == rows.stream[i]; });
      if (same == rivals.end()) rivals.push_back({rows.stream[i], units(takes.share[p])}); else same->most = std::max(same->most, units(takes.share[p]));
    }
  }
}

}  // namespace cs
