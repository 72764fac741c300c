// Partitioning of a stream of events in one pass (MemShare, section 3.2): every event goes to the part that scores highest, from counts
// that are carried from block to block.
//
// A node's sums lie scaled by e^(decay * (time - since[v])), so that an event adds to one of them and leaves the others as they are. Once
// the factor passes e^kMost the row is rescaled: sums fade to zero, and none overflows.
#include <algorithm>
#include <cmath>
#include <vector>

#include "pool.h"

namespace {

constexpr int32_t kShared = -1, kUnseen = -2;
constexpr double kMost = 64.0;
constexpr int64_t kAhead = 12;  // events whose rows are fetched before they are needed
constexpr double kSpare = 1.5;  // a part's events over the mean's, at which DisTGL gives it no more

struct Stream {
  int64_t nodes, parts;
  double decay;
  int32_t* node;
  double* attention;
  double* since;
  int64_t* node_counts;
  int64_t* event_counts;
  double* clock;

  double* row(int32_t v) const { return attention + v * parts; }

  // Returns the factor of a node's sums at a time.
  double faded(int32_t v, double time) const { return std::exp(-(decay * (time - since[v]))); }

  void add(int32_t v, int32_t part, double time) const {
    double grown = decay * (time - since[v]);
    if (grown > kMost) {
      const double factor = std::exp(-grown);
      for (int64_t p = 0; p < parts; ++p) row(v)[p] *= factor;
      since[v] = time;
      grown = 0.0;
    }
    row(v)[part] += std::exp(grown);
  }

  void fetch(int32_t v) const {
    __builtin_prefetch(node + v);
    __builtin_prefetch(since + v);
    __builtin_prefetch(row(v));
  }
};

// MemShare's rule, eq. 12 to 15; the clock of a part is the time of its last event. Counts differ by one at least, which is their epsilon;
// times need none.
struct Attention {
  static void weigh(const Stream& s, double, double* weight) {
    const auto [few, many] = std::minmax_element(s.node_counts, s.node_counts + s.parts);
    const auto [least, most] = std::minmax_element(s.event_counts, s.event_counts + s.parts);
    const auto [early, late] = std::minmax_element(s.clock, s.clock + s.parts);
    const double nodes = static_cast<double>(1 + *many - *few), events = static_cast<double>(1 + *most - *least), times = *late - *early;
    for (int64_t p = 0; p < s.parts; ++p) {
      const double by_nodes = 1.0 - static_cast<double>(s.node_counts[p] - *few) / nodes;
      const double by_events = 1.0 - static_cast<double>(s.event_counts[p] - *least) / events;
      const double by_time = times > 0.0 ? std::exp((*early - s.clock[p]) / times) : 1.0;
      weight[p] = by_nodes * by_events * by_time;
    }
  }
  static void tick(double& clock, double time) { clock = time; }
};

// DisTGL's rule, as far as it is published; the clock of a part is the sum of its events' times.
struct Average {
  static void weigh(const Stream& s, double time, double* weight) {
    double events = 0.0, times = 0.0;
    for (int64_t p = 0; p < s.parts; ++p) {
      events += static_cast<double>(s.event_counts[p]);
      times += s.clock[p];
    }
    const double load = kSpare * (events / static_cast<double>(s.parts)), mean = (times + time) / (events + 1.0);
    for (int64_t p = 0; p < s.parts; ++p) {
      const double own = static_cast<double>(s.event_counts[p]), average = (s.clock[p] + time) / (own + 1.0);
      const double room = load > 0.0 ? std::max(0.0, 1.0 - own / load) : 1.0;
      const double near = mean > 0.0 ? std::exp(-(std::fabs(average - mean) / mean)) : 1.0;
      weight[p] = room * near;
    }
  }
  static void tick(double& clock, double time) { clock += time; }
};

template <class Rule>
void run(const Stream& s, int64_t count, const int32_t* src, const int32_t* dst, const double* time, int32_t* out) {
  std::vector<double> weight(static_cast<size_t>(s.parts));
  for (int64_t e = 0; e < count; ++e) {
    if (e + kAhead < count) s.fetch(src[e + kAhead]), s.fetch(dst[e + kAhead]);
    const int32_t u = src[e], v = dst[e], of_u = s.node[u], of_v = s.node[v];
    int32_t part = 0;
    if (of_u == kShared && of_v >= 0) {
      part = of_v;
    } else if (of_v == kShared && of_u >= 0) {
      part = of_u;
    } else {
      Rule::weigh(s, time[e], weight.data());
      const double from_u = s.faded(u, time[e]), from_v = s.faded(v, time[e]);
      const double *row_u = s.row(u), *row_v = s.row(v);
      double best = -1.0;
      for (int64_t p = 0; p < s.parts; ++p) {
        const double score = (row_u[p] * from_u + row_v[p] * from_v + 1.0) * weight[p];
        if (score > best) best = score, part = static_cast<int32_t>(p);
      }
    }
    for (const int32_t end : {u, v}) {
      if (s.node[end] == kUnseen) s.node[end] = part, ++s.node_counts[part];
    }
    s.add(u, part, time[e]);
    if (v != u) s.add(v, part, time[e]);
    ++s.event_counts[part];
    Rule::tick(s.clock[part], time[e]);
    out[e] = part;
  }
}

bool sound(const Stream& s, int64_t count, const int32_t* src, const int32_t* dst, const double* time) {
  const auto among = [&](int32_t id) { return id >= 0 && id < s.nodes; };
  for (int64_t e = 0; e < count; ++e) {
    if (!among(src[e]) || !among(dst[e]) || !(time[e] >= (e ? time[e - 1] : 0.0)) || !std::isfinite(time[e])) return false;
    if (s.node[src[e]] < kUnseen || s.node[src[e]] >= s.parts || s.node[dst[e]] < kUnseen || s.node[dst[e]] >= s.parts) return false;
  }
  return true;
}

}  // namespace

int cs_stream_parts(int64_t nodes, int64_t parts, int64_t events, const int32_t* src, const int32_t* dst, const double* time, int average,
                    double decay, int32_t* node, double* attention, double* since, int64_t* node_counts, int64_t* event_counts, double* clock,
                    int32_t* out_part) {
  if (nodes < 0 || events < 0 || parts < 1 || parts > INT32_MAX || !(decay >= 0.0) || !std::isfinite(decay)) return CS_ERROR_ARGUMENT;
  if (events == 0) return CS_OK;
  if (!src || !dst || !time || !node || !attention || !since || !node_counts || !event_counts || !clock || !out_part) return CS_ERROR_ARGUMENT;
  const Stream stream{nodes, parts, decay, node, attention, since, node_counts, event_counts, clock};
  if (!sound(stream, events, src, dst, time)) return CS_ERROR_ARGUMENT;
  return cs::guarded([&] {
    (average ? run<Average> : run<Attention>)(stream, events, src, dst, time, out_part);
    return CS_OK;
  });
}
