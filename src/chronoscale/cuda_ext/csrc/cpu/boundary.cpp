// Boundary-decay sampling of temporal neighbours (MemShare, section 3.3): those of the rank's part, and a weighted sample of remote ones
// (cs_boundary). O(fan-out) a root, and a binary search of its row.
#include <math.h>

#include <algorithm>

#include "roots.h"

namespace {

using cs::kGroup, cs::kMostFanout;

constexpr int64_t kBack = 16;  // completion looks back over so many fan-outs

struct Boundary : cs::Roots {
  int64_t nodes;
  int64_t events;
  const void* t;
  bool int64_times;  // t is int64
  const int32_t* node_part;
  const int32_t* event_part;
  int32_t rank;
  int64_t fanout;
  double theta;
  double decay;
  bool complete;
  uint64_t seed;
  int32_t* out_neighbor;
  int32_t* out_event;
  float* out_weight;
  int32_t* out_count;
};

bool is_valid(const Boundary& s, int64_t at) {
  const int32_t v = s.neighbor[at], e = s.event[at];
  return v >= 0 && v < s.nodes && e >= 0 && e < s.events;
}

bool is_local(const Boundary& s, int64_t at) {
  const int32_t of_node = s.node_part[s.neighbor[at]];
  return s.event_part[s.event[at]] == s.rank && (of_node == s.rank || of_node < 0);
}

// Returns e^(decay (t_e - t_latest)); integer times are subtracted without a rounding, however large.
double decayed(const Boundary& s, int32_t e, int32_t latest) {
  if (s.decay == 0) return 1;
  const auto* const numbers = static_cast<const uint64_t*>(s.t);
  const auto* const times = static_cast<const double*>(s.t);
  return exp(-s.decay * (s.int64_times ? static_cast<double>(numbers[latest] - numbers[e]) : times[latest] - times[e]));
}

// Returns a uniform number in (0, 1), symmetric about a half, and never so near to 0 that the weight of a sampled neighbour were infinite.
double coin(uint64_t root, int32_t event) {
  return (static_cast<double>(cs::mixed(root + (static_cast<uint64_t>(event) + 1) * cs::kStep) >> 12) + 0.5) * 0x1p-52;
}

// Writes the slots of root i, whose row has `count` entries from `begin` on before the root. Returns false where one is no node or event.
bool settle(const Boundary& s, int64_t i, int64_t begin, int64_t count) {
  const int64_t recent = std::min(count, s.fanout), from = begin + count - recent;
  int64_t place[kMostFanout], remote = 0, latest = 0;
  float weight[kMostFanout];
  double share[kMostFanout];  // below 0: local
  for (int64_t k = 0; k < recent; ++k) {
    const bool near = s.theta >= 1 || is_local(s, from + k);
    share[k] = near ? -1 : 0;
    if (!near) ++remote, latest = k;
  }
  double total = 0;
  for (int64_t k = 0; remote > 0 && k <= latest; ++k) {
    if (share[k] == 0) total += share[k] = decayed(s, s.event[from + k], s.event[from + latest]);
  }
  const double expected = s.theta * static_cast<double>(remote);
  const uint64_t root = cs::key_of_root(s.seed, s.node[i], s.before[i]);
  int64_t sampled = 0;
  for (int64_t k = 0; k < recent; ++k) {
    const double p = share[k] < 0 ? 1 : std::min(expected * share[k] / total, 1.0);
    if (p < 1 && !(coin(root, s.event[from + k]) < p)) continue;
    place[sampled] = from + k, weight[sampled++] = static_cast<float>(1 / p);
  }
  int32_t* const neighbor = s.out_neighbor + i * s.fanout;
  int32_t* const event = s.out_event + i * s.fanout;
  float* const weighed = s.out_weight + i * s.fanout;
  int64_t older[kMostFanout], older_count = 0;
  const int64_t least = s.complete ? std::max(begin, from - kBack * s.fanout) : from;
  for (int64_t at = from - 1; at >= least && sampled + older_count < s.fanout; --at) {
    if (!is_valid(s, at)) return false;
    if (is_local(s, at)) older[older_count++] = at;
  }
  for (int64_t k = 0; k < older_count; ++k) {
    neighbor[k] = s.neighbor[older[older_count - 1 - k]], event[k] = s.event[older[older_count - 1 - k]], weighed[k] = 1;
  }
  for (int64_t k = 0; k < sampled; ++k) {
    neighbor[older_count + k] = s.neighbor[place[k]], event[older_count + k] = s.event[place[k]], weighed[older_count + k] = weight[k];
  }
  std::fill(neighbor + older_count + sampled, neighbor + s.fanout, -1);
  std::fill(event + older_count + sampled, event + s.fanout, -1);
  std::fill(weighed + older_count + sampled, weighed + s.fanout, 1.0f);
  s.out_count[i] = static_cast<int32_t>(older_count + sampled);
  return true;
}

// Roots [first, last), at most kGroup, a step of all before the next, as in temporal.cpp.
bool sample(const Boundary& s, int64_t first, int64_t last) {
  int64_t begin[kGroup], length[kGroup];
  if (!cs::find_rows(s, first, last, begin, length)) return false;
  for (int64_t i = first; i < last; ++i) {
    int64_t& count = length[i - first];
    count = cs::earlier(s.event + begin[i - first], count, s.before[i]);
    const int64_t recent = begin[i - first] + std::max<int64_t>(count - s.fanout, 0);
    __builtin_prefetch(s.neighbor + recent), __builtin_prefetch(s.event + recent);
  }
  for (int64_t i = first; i < last; ++i) {
    const int64_t end = begin[i - first] + length[i - first];
    for (int64_t at = std::max(begin[i - first], end - s.fanout); at < end; ++at) {
      if (!is_valid(s, at)) return false;
      __builtin_prefetch(s.event_part + s.event[at]), __builtin_prefetch(s.node_part + s.neighbor[at]);
      if (s.decay > 0) __builtin_prefetch(static_cast<const int64_t*>(s.t) + s.event[at]);
    }
  }
  for (int64_t i = first; i < last; ++i) {
    if (!settle(s, i, begin[i - first], length[i - first])) return false;
  }
  return true;
}

}  // namespace

int cs_boundary(int64_t nodes, const int64_t* indptr, const int32_t* neighbor, const int32_t* event, int64_t entries, int64_t events,
                const void* t, int int64_times, const int32_t* node_part, const int32_t* event_part, int32_t rank, int64_t roots,
                const int32_t* node, const int32_t* before, int64_t fanout, double theta, double decay, int complete, uint64_t seed,
                int threads, int32_t* out_neighbor, int32_t* out_event, float* out_weight, int32_t* out_count) {
  if (nodes < 0 || entries < 0 || events < 0 || roots < 0 || fanout < 0 || fanout > kMostFanout || threads < 0 || !indptr) return CS_ERROR_ARGUMENT;
  if (!(theta >= 0) || !(decay >= 0) || rank < 0) return CS_ERROR_ARGUMENT;
  if (roots == 0) return CS_OK;
  if (!node || !before || !out_count || (fanout > 0 && (!out_neighbor || !out_event || !out_weight))) return CS_ERROR_ARGUMENT;
  if ((entries > 0 && (!neighbor || !event)) || (nodes > 0 && !node_part) || (events > 0 && (!t || !event_part))) return CS_ERROR_ARGUMENT;
  if (!cs::within(node, roots, -1, nodes)) return CS_ERROR_ARGUMENT;
  const Boundary s{{indptr, neighbor, event, entries, roots, node, before}, nodes, events, t, int64_times != 0, node_part, event_part, rank,
                   fanout, theta, decay, complete != 0, seed, out_neighbor, out_event, out_weight, out_count};
  return cs::over_roots(roots, threads, [&](int64_t first, int64_t last) { return sample(s, first, last); });
}
