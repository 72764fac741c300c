// T-CSR (the events of every node in their order) and the sampling of events before a given one: cs_tcsr_count, cs_tcsr_fill, cs_sample.
//
// Sampling reads the two ends of a row, searches the row, and copies a few entries: each step waits for the one before, and for memory.
// So a thread takes roots in groups, and goes through each step for the whole group before the next.
#include <algorithm>
#include <limits>

#include "roots.h"

namespace {

using cs::earlier, cs::kGroup, cs::kMostFanout, cs::mixed, cs::within;

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

struct Sampler : cs::Roots {
  const int32_t* since;  // or null: no lower bound
  int64_t fanout;
  bool uniform;
  uint64_t seed;
  int32_t* out_neighbor;
  int32_t* out_event;
  int32_t* out_count;
};

// Returns the draw of a root's slot, below `bound`: it depends only on the root, its slot and the seed. The bias is below bound / 2^64.
uint64_t drawn(uint64_t root, uint64_t slot, uint64_t bound) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(mixed(root + (slot + 1) * cs::kStep)) * bound >> 64);
}

// Chooses `fanout` different numbers below `length`, ascending (Floyd: Bentley and Floyd, CACM 1987).
void choose(uint64_t root, int64_t length, int64_t fanout, int64_t* chosen) {
  for (int64_t k = 0; k < fanout; ++k) {
    const int64_t last = length - fanout + k;
    int64_t pick = static_cast<int64_t>(drawn(root, static_cast<uint64_t>(k), static_cast<uint64_t>(last) + 1));
    bool duplicate = false;
    for (int64_t i = 0; i < k; ++i) duplicate |= chosen[i] == pick;
    if (duplicate) pick = last;
    int64_t at = k;
    for (; at > 0 && chosen[at - 1] > pick; --at) chosen[at] = chosen[at - 1];
    chosen[at] = pick;
  }
}

// Samples roots [first, last), at most kGroup. Returns false where a row does not lie within the entries.
bool sample(const Sampler& s, int64_t first, int64_t last) {
  int64_t begin[kGroup], length[kGroup], picks[kMostFanout];
  if (!cs::find_rows(s, first, last, begin, length)) return false;
  for (int64_t i = first; i < last; ++i) {
    int64_t& count = length[i - first];
    count = earlier(s.event + begin[i - first], count, s.before[i]);
    const int64_t recent = begin[i - first] + std::max<int64_t>(count - s.fanout, 0);
    if (!s.uniform || count <= s.fanout) __builtin_prefetch(s.neighbor + recent), __builtin_prefetch(s.event + recent);
  }
  if (s.since) {
    for (int64_t i = first; i < last; ++i) {
      int64_t& count = length[i - first];
      const int64_t skipped = s.uniform ? 0 : std::max<int64_t>(count - s.fanout, 0);  // earlier ones exceed the fan-out in any case
      const int64_t dropped = skipped + earlier(s.event + begin[i - first] + skipped, count - skipped, s.since[i]);
      begin[i - first] += dropped;
      count -= dropped;
    }
  }
  for (int64_t i = first; i < last; ++i) {
    const int64_t from = begin[i - first], count = length[i - first], sampled = std::min(count, s.fanout);
    int32_t* const neighbor = s.out_neighbor + i * s.fanout;
    int32_t* const event = s.out_event + i * s.fanout;
    if (s.uniform && count > s.fanout) {
      choose(cs::key_of_root(s.seed, s.node[i], s.before[i]), count, s.fanout, picks);
      for (int64_t k = 0; k < sampled; ++k) {
        neighbor[k] = s.neighbor[from + picks[k]];
        event[k] = s.event[from + picks[k]];
      }
    } else {
      const int64_t at = from + count - sampled;
      std::copy_n(s.neighbor + at, sampled, neighbor);
      std::copy_n(s.event + at, sampled, event);
    }
    std::fill(neighbor + sampled, neighbor + s.fanout, -1);
    std::fill(event + sampled, event + s.fanout, -1);
    s.out_count[i] = static_cast<int32_t>(sampled);
  }
  return true;
}

}  // namespace

int cs_tcsr_count(int64_t nodes, int64_t events, const int32_t* src, const int32_t* dst, int both, int64_t* degree) {
  if (nodes < 0 || events < 0 || (nodes > 0 && !degree) || (events > 0 && (!src || !dst))) return CS_ERROR_ARGUMENT;
  if (!within(src, events, 0, nodes) || !within(dst, events, 0, nodes)) return CS_ERROR_ARGUMENT;
  for (int64_t e = 0; e < events; ++e) {
    ++degree[src[e]];
    if (both && dst[e] != src[e]) ++degree[dst[e]];
  }
  return CS_OK;
}

int cs_tcsr_fill(int64_t nodes, int64_t events, int64_t first, const int32_t* src, const int32_t* dst, int both, int64_t room,
                 int64_t* cursor, int32_t* neighbor, int32_t* event) {
  if (nodes < 0 || events < 0 || first < 0 || first > kMost - events || room < 0 || (nodes > 0 && !cursor)) return CS_ERROR_ARGUMENT;
  if ((events > 0 && (!src || !dst)) || (room > 0 && (!neighbor || !event))) return CS_ERROR_ARGUMENT;
  if (!within(src, events, 0, nodes) || !within(dst, events, 0, nodes)) return CS_ERROR_ARGUMENT;
  const auto put = [&](int32_t v, int32_t other, int64_t e) {
    const int64_t at = cursor[v];
    if (at < 0 || at >= room) return false;
    cursor[v] = at + 1;
    neighbor[at] = other;
    event[at] = static_cast<int32_t>(first + e);
    return true;
  };
  for (int64_t e = 0; e < events; ++e) {
    if (!put(src[e], dst[e], e) || (both && dst[e] != src[e] && !put(dst[e], src[e], e))) return CS_ERROR_ARGUMENT;
  }
  return CS_OK;
}

int cs_sample(int64_t nodes, const int64_t* indptr, const int32_t* neighbor, const int32_t* event, int64_t entries, int64_t roots,
              const int32_t* node, const int32_t* before, const int32_t* since, int64_t fanout, int uniform, uint64_t seed, int threads,
              int32_t* out_neighbor, int32_t* out_event, int32_t* out_count) {
  if (nodes < 0 || entries < 0 || roots < 0 || fanout < 0 || fanout > kMostFanout || threads < 0 || !indptr) return CS_ERROR_ARGUMENT;
  if (roots == 0) return CS_OK;
  if (!node || !before || !out_count || (fanout > 0 && (!out_neighbor || !out_event))) return CS_ERROR_ARGUMENT;
  if (entries > 0 && (!neighbor || !event)) return CS_ERROR_ARGUMENT;
  if (!within(node, roots, -1, nodes)) return CS_ERROR_ARGUMENT;
  const Sampler s{{indptr, neighbor, event, entries, roots, node, before}, since, fanout, uniform != 0, seed, out_neighbor, out_event,
                  out_count};
  return cs::over_roots(roots, threads, [&](int64_t first, int64_t last) { return sample(s, first, last); });
}
