// Union-find of the regions of a replay.
#include "regions.h"

#include <numeric>

namespace cs {

Regions::Regions(const Rows& rows, const Hosts& hosts, const Takes& takes) : first_(1) {
  if (!takes.ptr || !takes.ptr[rows.count]) return;
  of_.resize(rows.streams);
  streams_.resize(rows.streams);
  first_.clear();
  above_.resize(rows.streams + hosts.count + takes.resources);
  std::iota(above_.begin(), above_.end(), 0);
  for (int64_t i = 0; i < rows.count; ++i) {
    const int32_t stream = rows.stream[i];
    for (int64_t p = rows.dep_ptr[i]; p < rows.dep_ptr[i + 1]; ++p) join(stream, rows.stream[rows.dep[p]]);
    if (hosts.launch(i)) join(stream, rows.streams + hosts.host[hosts.turn[i]]);
    if (!takes.any(i, rows.ns[i])) continue;
    for (int64_t p = takes.ptr[i]; p < takes.ptr[i + 1]; ++p) join(stream, rows.streams + hosts.count + takes.resource[p]);
  }
  for (int64_t t = 0; t < hosts.turns; ++t) {
    if (hosts.gate[t] >= 0) join(rows.stream[hosts.gate[t]], rows.streams + hosts.host[t]);
  }
  std::vector<int32_t> number(above_.size(), -1);
  for (int64_t s = 0; s < rows.streams; ++s) {
    int32_t& region = number[root(s)];
    if (region < 0) region = static_cast<int32_t>(first_.size()), first_.push_back(0);
    of_[s] = region;
    ++first_[region];
  }
  first_.push_back(0);
  std::exclusive_scan(first_.begin(), first_.end(), first_.begin(), 0);
  std::vector<int32_t> place = first_;
  for (int64_t s = 0; s < rows.streams; ++s) streams_[place[of_[s]]++] = static_cast<int32_t>(s);
}

int32_t Regions::root(int64_t node) {
  while (above_[node] != node) node = above_[node] = above_[above_[node]];
  return static_cast<int32_t>(node);
}

void Regions::join(int64_t first, int64_t second) {
  if (above_[first] == above_[second]) return;
  const int32_t a = root(first), b = root(second);
  if (a < b) above_[b] = a; else above_[a] = b;
}

}  // namespace cs
