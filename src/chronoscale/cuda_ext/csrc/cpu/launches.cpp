// Turns of hosts that launch a schedule's kernels (cs_launches), with the results of simulator/launches.py. O(rows * lanes).
#include <algorithm>
#include <vector>

#include "pool.h"

namespace {

constexpr int64_t kAtOnce = -(int64_t{1} << 60);

struct Turn {
  int64_t gate, spent;  // spent: ns of launches since the host began, before this turn
};

struct Host {
  std::vector<Turn> turns;
  int64_t spent = 0, iteration = -1, step = -1, before = -1;  // optimiser's steps of this iteration and the one before
  std::vector<int64_t> waited;  // of each lane: the last row that launches have waited for
  std::vector<int64_t> lane;    // of each lane: its last row
};

}  // namespace

int cs_launches(int64_t count, int64_t hosts, int64_t lanes, const int32_t* rank, const uint8_t* lane, const int32_t* iteration,
                const int64_t* kernels, const int64_t* ns, const uint8_t* on_host, const uint8_t* steps, const int64_t* dep_ptr,
                const int64_t* dep, const int64_t* launch_ns, int64_t* out_turn, int64_t* out_after, int64_t* out_host, int64_t* out_length,
                int64_t* out_gate, int64_t* out_turns) {
  if (count < 0 || hosts < 0 || lanes < 0 || !out_turns) return CS_ERROR_ARGUMENT;
  if (count && (!rank || !lane || !iteration || !kernels || !ns || !on_host || !steps || !dep_ptr || !launch_ns)) return CS_ERROR_ARGUMENT;
  if (count && (!out_turn || !out_after || !out_host || !out_length || !out_gate)) return CS_ERROR_ARGUMENT;
  return cs::guarded([&] {
    std::vector<Host> host(hosts);
    for (Host& h : host) h.waited.assign(lanes, -1), h.lane.assign(lanes, -1);
    std::vector<int64_t> latest(lanes);
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (rank[i] < 0 || rank[i] >= hosts || lane[i] >= lanes || dep_ptr[i] > dep_ptr[i + 1] || launch_ns[i] < 0) return CS_ERROR_ARGUMENT;
      Host& h = host[rank[i]];
      const auto begin = [&](int64_t gate) { h.turns.push_back({gate, h.spent}), ++total; };
      const int64_t at = std::max<int64_t>(iteration[i], 0);
      if (at > h.iteration) {  // rows of an earlier iteration among those of a later one belong to its turn
        begin(h.before);
        h.iteration = at;
        h.before = h.step;
        h.step = -1;
      }
      int64_t& behind = h.lane[lane[i]];
      if (!on_host[i] && kernels[i] > 0) {
        const auto wait = [&](int64_t d) {
          if (on_host[d] && rank[d] == rank[i]) latest[lane[d]] = std::max(latest[lane[d]], d);
        };
        std::fill(latest.begin(), latest.end(), -1);
        for (int64_t p = dep_ptr[i]; p < dep_ptr[i + 1]; ++p) {
          if (dep[p] < 0 || dep[p] >= i) return CS_ERROR_ARGUMENT;
          wait(dep[p]);
        }
        if (behind >= 0) wait(behind);
        for (int64_t k = 0; k < lanes; ++k) {
          if (latest[k] > h.waited[k]) begin(h.waited[k] = latest[k]);
        }
      }
      behind = i;
      if (steps[i]) h.step = i;
      const int64_t spent = kernels[i] * launch_ns[i];
      h.spent += spent;
      const int64_t beside = std::max<int64_t>(kernels[i] - 1, 0) * std::min(ns[i] / std::max<int64_t>(kernels[i], 1), launch_ns[i]);
      out_turn[i] = static_cast<int64_t>(h.turns.size()) - 1;
      out_after[i] = spent > 0 ? h.spent - h.turns.back().spent - beside : kAtOnce;
    }
    std::vector<int64_t> first(hosts);
    int64_t written = 0;
    for (int64_t r = 0; r < hosts; ++r) {
      first[r] = written;
      const std::vector<Turn>& turns = host[r].turns;
      for (size_t k = 0; k < turns.size(); ++k, ++written) {
        out_host[written] = r;
        out_gate[written] = turns[k].gate;
        out_length[written] = (k + 1 < turns.size() ? turns[k + 1].spent : host[r].spent) - turns[k].spent;
      }
    }
    for (int64_t i = 0; i < count; ++i) out_turn[i] += first[rank[i]];
    *out_turns = total;
    return CS_OK;
  });
}
