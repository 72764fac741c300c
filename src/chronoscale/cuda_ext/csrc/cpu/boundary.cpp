// Boundary-decay sampling of temporal neighbours (MemShare, section 3.3): those of the rank's part, and a weighted sample of remote ones
// (cs_boundary), with those whose rows are cached. O(fan-out) a root, and a binary search of its row.
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
  double least;  // probability of a remote neighbour
  bool at_least_one;  // a root has one neighbour at least
  bool complete;
  uint64_t seed;
  const int32_t* node_cached;   // below 0: the row is not; null: none is
  const int32_t* event_cached;  // null: all are
  int32_t* out_neighbor;
  int32_t* out_event;
  float* out_weight;
  uint8_t* out_cached;
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

// Returns whether the rows of a remote neighbour can be read without asking for them.
bool is_cached(const Boundary& s, int64_t at) {
  if (!s.node_cached) return false;
  const int32_t v = s.neighbor[at], e = s.event[at], of_node = s.node_part[v];
  const bool node = of_node == s.rank || of_node < 0 || s.node_cached[v] >= 0;
  return node && (!s.event_cached || s.event_part[e] == s.rank || s.event_cached[e] >= 0);
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
  bool cached[kMostFanout], stale[kMostFanout];
  double share[kMostFanout];  // below 0: local
  bool certain = !s.at_least_one || s.theta == 0;  // there is a neighbour, whatever coins say, or none has to be
  for (int64_t k = 0; k < recent; ++k) {
    const bool near = s.theta >= 1 || is_local(s, from + k);
    cached[k] = !near && is_cached(s, from + k);
    share[k] = near ? -1 : 0;
    certain |= near || cached[k];
    if (!near) ++remote, latest = k;
  }
  double total = 0;
  for (int64_t k = 0; remote > 0 && k <= latest; ++k) {
    if (share[k] == 0) total += share[k] = decayed(s, s.event[from + k], s.event[from + latest]);
  }
  const double expected = s.theta * static_cast<double>(remote);
  const uint64_t root = cs::key_of_root(s.seed, s.node[i], s.before[i]);
  double none[kMostFanout + 1];  // logarithm of the probability that coins from the k-th on leave all out
  none[recent] = 0;
  for (int64_t k = recent - 1; k >= 0; --k) {
    share[k] = share[k] < 0 ? 1 : std::min(std::max(expected * share[k] / total, s.least), 1.0);
    if (!certain) none[k] = none[k + 1] + log1p(-share[k]);
  }
  const double some = certain ? 1 : -expm1(none[0]);
  int64_t sampled = 0;
  for (int64_t k = 0; k < recent; ++k) {
    const double p = share[k];
    const bool forced = !certain && sampled == 0 && k + 1 == recent;
    const double chance = certain || sampled > 0 ? p : p / -expm1(none[k]);  // given that one is sampled at least
    const bool fetched = p >= 1 || forced || coin(root, s.event[from + k]) < chance;
    if (!fetched && !cached[k]) continue;
    place[sampled] = from + k, stale[sampled] = !fetched, weight[sampled++] = static_cast<float>(cached[k] ? 1 : some / p);
  }
  int32_t* const neighbor = s.out_neighbor + i * s.fanout;
  int32_t* const event = s.out_event + i * s.fanout;
  float* const weighed = s.out_weight + i * s.fanout;
  uint8_t* const read = s.out_cached + i * s.fanout;
  std::fill(read, read + s.fanout, uint8_t{0});
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
    read[older_count + k] = stale[k];
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
                const int32_t* node, const int32_t* before, int64_t fanout, double theta, double decay, double least, int at_least_one, int complete,
                uint64_t seed, const int32_t* node_cached, const int32_t* event_cached, int threads, int32_t* out_neighbor,
                int32_t* out_event, float* out_weight, uint8_t* out_cached, int32_t* out_count) {
  if (nodes < 0 || entries < 0 || events < 0 || roots < 0 || fanout < 0 || fanout > kMostFanout || threads < 0 || !indptr) return CS_ERROR_ARGUMENT;
  if (!(theta >= 0) || !(decay >= 0) || !(least >= 0 && least <= 1) || rank < 0) return CS_ERROR_ARGUMENT;
  if (roots == 0) return CS_OK;
  if (!node || !before || !out_count || (fanout > 0 && (!out_neighbor || !out_event || !out_weight || !out_cached))) return CS_ERROR_ARGUMENT;
  if ((entries > 0 && (!neighbor || !event)) || (nodes > 0 && !node_part) || (events > 0 && (!t || !event_part))) return CS_ERROR_ARGUMENT;
  if (!cs::within(node, roots, -1, nodes)) return CS_ERROR_ARGUMENT;
  const Boundary s{{indptr, neighbor, event, entries, roots, node, before}, nodes, events, t, int64_times != 0, node_part, event_part, rank,
                   fanout, theta, decay, least, at_least_one != 0, complete != 0, seed, node_cached, event_cached, out_neighbor, out_event, out_weight,
                   out_cached, out_count};
  return cs::over_roots(roots, threads, [&](int64_t first, int64_t last) { return sample(s, first, last); });
}
