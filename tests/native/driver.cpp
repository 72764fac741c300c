// The CPU library from several threads at once, for the thread sanitizer (make sanitize). Each caller compares what it gets with what
// one thread got before; calls that change the number of helpers, bind sampling threads and let go of them go on meanwhile.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "../../src/chronoscale/cuda_ext/csrc/common/chronoscale.h"

namespace {

constexpr int64_t kNodes = 3000, kWidth = 48, kGroups = 400, kBand = 6, kRoots = 20000, kFanout = 6;
constexpr int64_t kTargets = 500, kSlots = 9, kHeads = 2, kEdges = 5, kClock = 20, kAcross = kWidth + kEdges + kClock;
constexpr int64_t kHidden = 32, kIds = 600000, kFar = 2000000000;
constexpr int kCallers = 4, kRounds = 6;

void require(int status) {
  if (status != CS_OK) {
    std::fprintf(stderr, "a call failed with status %d\n", status);
    std::abort();
  }
}

// A graph with a hub, large enough that helpers are woken, and groups to pair.
struct Given {
  std::vector<int64_t> indptr{0}, change_ptr{0}, steps{0}, out_ptr{0};
  std::vector<int32_t> indices, targets, slots, change;
  std::vector<float> values, left, right, into, below;
  std::vector<double> column, times, reuse;
  std::vector<float> wanted, elapsed, edge;
  std::vector<int64_t> at;
  std::vector<uint8_t> there;
  std::vector<int32_t> close, far;  // ids

  Given() {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> unit(0, 1);
    for (int32_t v = 0; v < kNodes; ++v) {
      const int32_t others = v == 7 ? kNodes - 1 : 20;
      std::vector<bool> taken(kNodes);
      for (int32_t i = 0; i < others; ++i) taken[v == 7 ? i : random() % kNodes] = true;
      taken[v] = false;
      indices.push_back(v);
      for (int32_t u = 0; u < kNodes; ++u) {
        if (!taken[u]) continue;
        indices.push_back(u);
        if (u % 5 == 0) change.push_back(u), steps.push_back(steps.back() - 1);  // every fifth source leaves
      }
      indptr.push_back(static_cast<int64_t>(indices.size()));
      change_ptr.push_back(static_cast<int64_t>(change.size()));
      out_ptr.push_back(indptr.back() + steps.back());
      targets.push_back(v), slots.push_back(v);
      left.push_back(unit(random)), right.push_back(unit(random)), below.push_back(unit(random)), column.push_back(unit(random));
    }
    for (size_t i = 0; i < indices.size(); ++i) values.push_back(unit(random));
    for (int64_t i = 0; i < kNodes * kWidth; ++i) into.push_back(unit(random));
    for (int64_t i = 0; i < kTargets * kHeads * kAcross; ++i) wanted.push_back(unit(random) - 0.5f);
    for (int64_t i = 0; i < kTargets * kSlots * kEdges; ++i) edge.push_back(unit(random));
    for (int64_t i = 0; i < kTargets * kSlots; ++i) {
      elapsed.push_back(1e6f * unit(random)), at.push_back(static_cast<int64_t>(random() % 300)), there.push_back(random() % 4 != 0);
    }
    for (int64_t i = 0; i < kGroups; ++i) times.push_back(1 + unit(random));
    for (int64_t i = 0; i < kIds; ++i) {
      close.push_back(static_cast<int32_t>(random() % kNodes)), far.push_back(static_cast<int32_t>(random() % kFar));
    }
    for (int64_t i = 0; i < kGroups * kBand; ++i) reuse.push_back(unit(random) / 2);
  }
};

struct Results {
  std::vector<float> aggregate, sums, touched, weights, maximum, denominator, edges, row, rebuilt_values;
  std::vector<float> summed, mixed, of_edges, softened, hardened, gathered;
  std::vector<float> shares, attended, into_wanted, into_source, into_edge, into_clock;
  std::vector<float> both, memory, to_given, to_kept, to_memory, cosine, sine, of_lstm, of_gru;
  std::vector<int32_t> rebuilt, iteration, gpu, slot, mate, exchanged, neighbor, event, found;
  std::vector<int32_t> unique, far_unique, kept, kept_event, kept_count;
  std::vector<float> kept_weight;
  std::vector<uint8_t> kept_cached;
  std::vector<int64_t> place, far_place, rows_of;
  double total = 0, makespan = 0;

  explicit Results(const Given& g)
      : aggregate(kNodes * kWidth), sums(kNodes * kWidth), touched(kNodes * kWidth), weights(g.indices.size()), maximum(kNodes),
        denominator(kNodes), edges(g.indices.size()), row(kNodes), rebuilt_values(g.out_ptr.back()), rebuilt(g.out_ptr.back()),
        iteration(kGroups), gpu(kGroups), slot(kGroups), mate(kGroups), exchanged(kGroups, -1), neighbor(kRoots * kFanout), event(kRoots * kFanout), found(kRoots) {
    attend(g);
    recur(g);
    of_lstm = step(g, true), of_gru = step(g, false);
    along_edges(g);
    compress(g);
    require(cs_aggregate_f32(kNodes, g.indptr.data(), g.indices.data(), g.values.data(), g.into.data(), kWidth, aggregate.data()));
    require(cs_increment_f32(kNodes, g.targets.data(), nullptr, g.indptr.data(), g.indices.data(), g.values.data(), g.into.data(), kWidth,
                             sums.data(), touched.data()));
    require(cs_softmax_f32(kNodes, nullptr, g.indptr.data(), g.indices.data(), nullptr, nullptr, 1, g.left.data(), g.right.data(), 0.2,
                           weights.data(), maximum.data(), denominator.data(), nullptr));
    require(cs_softmax_grad_f32(kNodes, nullptr, g.indptr.data(), g.indices.data(), g.left.data(), g.right.data(), 0.2, weights.data(),
                                aggregate.data(), kWidth, g.into.data(), g.below.data(), edges.data(), row.data()));
    require(cs_rebuild(kNodes, g.indptr.data(), g.indices.data(), g.slots.data(), g.change_ptr.data(), g.change.data(), g.steps.data(),
                       g.column.data(), nullptr, g.out_ptr.data(), rebuilt.data(), rebuilt_values.data()));
    require(cs_greedy(kGroups, g.times.data(), kBand, g.reuse.data(), 4, 0, 1, 0, iteration.data(), gpu.data(), slot.data()));
    require(cs_band_matching(kGroups, kBand, g.reuse.data(), mate.data(), &total));
    std::vector<int32_t> node(kRoots), before(kRoots), since(kRoots);  // rows' ids ascend but for the first: events as good as any
    for (int64_t i = 0; i < kRoots; ++i) {
      node[i] = static_cast<int32_t>(i % kNodes), before[i] = static_cast<int32_t>(i % 997), since[i] = before[i] / 2 - 1;
    }
    require(cs_sample(kNodes, g.indptr.data(), g.indices.data(), g.indices.data(), g.indptr.back(), kRoots, node.data(), before.data(),
                      since.data(), kFanout, 1, 5, 0, neighbor.data(), event.data(), found.data()));
    kept.resize(kRoots * kFanout), kept_event.resize(kRoots * kFanout), kept_weight.resize(kRoots * kFanout), kept_count.resize(kRoots);
    kept_cached.resize(kRoots * kFanout);
    std::vector<int32_t> parts(kNodes), halves(kNodes);
    for (int32_t v = 0; v < kNodes; ++v) parts[v] = v % 3 - 1, halves[v] = v % 2;
    require(cs_boundary(kNodes, g.indptr.data(), g.indices.data(), g.indices.data(), g.indptr.back(), kNodes, g.column.data(), 0, parts.data(),
                        halves.data(), 1, kRoots, node.data(), before.data(), kFanout, 0.4, 0.5, 0.1, 1, 1, 5, parts.data(),
                        halves.data(), 0, kept.data(), kept_event.data(), kept_weight.data(), kept_cached.data(), kept_count.data()));
    require(cs_exchange(kGroups, g.times.data(), kBand, g.reuse.data(), 4, 0.1, 0.1, 0.1, 20000, 3, exchanged.data(), &makespan));
  }

  void attend(const Given& g) {
    shares.resize(kTargets * kHeads * kSlots), attended.resize(kTargets * kHeads * kAcross), into_wanted.resize(kTargets * kHeads * kAcross);
    into_source.resize(kNodes * kWidth), into_edge.resize(kTargets * kSlots * kEdges), into_clock.resize(2 * kClock);
    require(cs_slots_f32(kTargets, kSlots, kHeads, kWidth, kEdges, kClock, kNodes, g.wanted.data(), g.into.data(), g.at.data(), g.there.data(),
                         g.elapsed.data(), g.edge.data(), g.left.data(), g.right.data(), nullptr, 0, shares.data(), attended.data()));
    require(cs_slots_grad_f32(kTargets, kSlots, kHeads, kWidth, kEdges, kClock, kNodes, g.wanted.data(), g.into.data(), g.at.data(),
                              g.there.data(), g.elapsed.data(), g.edge.data(), g.left.data(), g.right.data(), nullptr, 0, shares.data(),
                              attended.data(), into_wanted.data(), into_source.data(), into_edge.data(), into_clock.data(),
                              into_clock.data() + kClock));
  }

  // Edges whose targets ascend, edges in the order of their sources' ids, softmax of two heads and its gradient, rows of two tables.
  void along_edges(const Given& g) {
    const int64_t edges = static_cast<int64_t>(g.indices.size());
    std::vector<int64_t> target;
    for (int64_t v = 0; v < kNodes; ++v) target.insert(target.end(), g.indptr[v + 1] - g.indptr[v], v);
    const std::vector<int64_t> source(g.indices.begin(), g.indices.end());
    summed.resize(kNodes * kWidth), mixed.resize(kNodes * kWidth), of_edges.resize(kNodes), gathered.resize(edges * kWidth);
    softened.resize(2 * edges), hardened.resize(2 * edges);
    require(cs_edges_f32(kNodes, edges, target.data(), source.data(), 1, kNodes, g.into.data(), kWidth, summed.data()));
    require(cs_edges_f32(kNodes, edges, g.indices.data(), nullptr, 0, edges, g.values.data(), 1, of_edges.data()));
    require(cs_edges_f32(kNodes, edges, source.data(), target.data(), 1, kNodes, g.into.data(), kWidth, mixed.data()));
    require(cs_edge_softmax_f32(kNodes, edges, 2, g.indptr.data(), g.into.data(), softened.data()));
    require(cs_edge_softmax_grad_f32(kNodes, edges, 2, g.indptr.data(), softened.data(), g.into.data(), hardened.data()));
    require(cs_gather_f32(edges, source.data(), 1, kNodes / 3, g.into.data(), kNodes - kNodes / 3, g.into.data(), kWidth, gathered.data()));
  }

  // Ids that are marked, in rows that are not full, and ids that are sorted.
  void compress(const Given& g) {
    const int64_t width = 6, rows = kIds / width;
    std::vector<int32_t> counts;
    for (int64_t row = 0; row < rows; ++row) counts.push_back(static_cast<int32_t>(width - row % 2 * (row % 20 == 1)));
    unique.resize(kIds), place.resize(kIds), rows_of.resize(rows + 1), far_unique.resize(kIds), far_place.resize(kIds);
    int64_t count = 0, far_count = 0;
    require(cs_distinct(rows, width, g.close.data(), counts.data(), 0, unique.data(), place.data(), rows_of.data(), &count));
    require(cs_distinct(kIds, 1, g.far.data(), nullptr, 0, far_unique.data(), far_place.data(), nullptr, &far_count));
    unique.resize(count), far_unique.resize(far_count);
  }

  // Gates, encodings.
  void recur(const Given& g) {
    const int64_t gated = 3 * kHidden;
    both.resize(kNodes * gated), to_given.resize(kNodes * gated), to_kept.resize(kNodes * gated);
    memory.resize(kNodes * kHidden), to_memory.resize(kNodes * kHidden);
    cosine.resize(kTargets * kSlots * kClock), sine.resize(kTargets * kSlots * kClock);
    for (size_t i = 0; i < both.size(); ++i) both[i] = g.into[i % g.into.size()] - 0.5f;
    require(cs_gates_f32(kNodes, kHidden, both.data(), both.data(), g.into.data(), g.there.data(), memory.data()));
    require(cs_gates_grad_f32(kNodes, kHidden, both.data(), both.data(), g.into.data(), g.there.data(), memory.data(), to_given.data(),
                              to_kept.data(), to_memory.data()));
    require(cs_encode_f32(kTargets * kSlots, kClock, g.elapsed.data(), g.left.data(), g.right.data(), cosine.data(), sine.data()));
  }

  // A step of an LSTM or a GRU and its gradients, products read and their gradients added through an index: all arrays, one after another.
  std::vector<float> step(const Given& g, bool lstm) const {
    const int64_t wide = kNodes * 4 * kHidden, narrow = kNodes * kHidden;
    std::vector<float> all(4 * wide + 5 * narrow);
    for (int64_t i = 0; i < wide; ++i) all[i] = g.into[i % g.into.size()] - 0.5f;
    float *const products = all.data(), *const gates = products + wide, *const to_products = gates + wide, *const to_state = to_products + wide;
    float *const h = to_state + wide, *const c = h + narrow, *const to_old = c + narrow, *const old = to_old + narrow, *const into = old + narrow;
    for (int64_t i = 0; i < narrow; ++i) old[i] = into[i] = g.into[i];
    const int32_t *const read = g.targets.data(), *const parent = g.targets.data();
    if (lstm) {
      require(cs_lstm_step_f32(kNodes, kHidden, products, read, products, old, parent, gates, h, c));
      require(cs_lstm_step_grad_f32(kNodes, kHidden, gates, old, parent, c, into, into, read, to_products, to_state, to_old));
    } else {
      require(cs_gru_step_f32(kNodes, kHidden, products, read, products, 0, old, parent, gates, h));
      require(cs_gru_step_grad_f32(kNodes, kHidden, gates, old, parent, into, read, 1, to_products, to_state, to_old));
    }
    return all;
  }

  bool operator==(const Results& o) const {
    return of_lstm == o.of_lstm && of_gru == o.of_gru && kept == o.kept && kept_event == o.kept_event && kept_count == o.kept_count && kept_weight == o.kept_weight && kept_cached == o.kept_cached && summed == o.summed && mixed == o.mixed && of_edges == o.of_edges && softened == o.softened && hardened == o.hardened &&
           gathered == o.gathered && unique == o.unique && far_unique == o.far_unique && place == o.place && far_place == o.far_place &&
           rows_of == o.rows_of && shares == o.shares && attended == o.attended && into_wanted == o.into_wanted && into_source == o.into_source &&
           into_edge == o.into_edge && into_clock == o.into_clock && memory == o.memory &&
           to_given == o.to_given && to_kept == o.to_kept && to_memory == o.to_memory && cosine == o.cosine && sine == o.sine && aggregate == o.aggregate && sums == o.sums && touched == o.touched && weights == o.weights && maximum == o.maximum &&
           denominator == o.denominator && edges == o.edges && row == o.row && rebuilt == o.rebuilt && rebuilt_values == o.rebuilt_values &&
           iteration == o.iteration && gpu == o.gpu && slot == o.slot && mate == o.mate && exchanged == o.exchanged && neighbor == o.neighbor && event == o.event && found == o.found && total == o.total &&
           makespan == o.makespan;
  }
};

}  // namespace

int main() {
  const Given given;
  require(cs_set_threads(1));
  const Results expected(given);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < kRounds; ++round) {
        require(cs_set_threads(1 + (caller + round) % 5));
        if (!(Results(given) == expected)) ++wrong;
      }
    });
  }
  std::atomic<bool> ended{false};
  std::thread binder([&] {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    std::vector<int32_t> cpus;
    for (int32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
    }
    for (size_t round = 0; !ended; ++round) {
      require(round % 4 ? cs_bind(static_cast<int>(1 + round % cpus.size()), cpus.data()) : cs_unbind());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    require(cs_unbind());
  });
  for (std::thread& caller : callers) caller.join();
  ended = true;
  binder.join();
  std::printf("%d of %d rounds differ from one thread's\n", wrong.load(), kCallers * kRounds);
  return wrong ? 1 : 0;
}
