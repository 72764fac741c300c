// Greedy assignment of groups of snapshots to GPUs (REAL-G: REAL, section 5.3, Algorithm 1), with the published choices in less than its
// O(n^3). cs_greedy serves scheduling/greedy.py.
//
// GetPairs runs D - 1 two-point searches that differ by one removed pair each; walk.h repairs the first one D - 2 times. A target is given
// up once it must waste more than the best one, and those behind one that wastes nothing are not tried.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <vector>

#include "pool.h"
#include "walk.h"

namespace {

constexpr double kExact = 9007199254740992.0;  // 2^53: whole numbers below it are doubles, and so are their sums
constexpr int64_t kWorthHelp = 1 << 16;        // steps of walking below which helpers are not woken

struct Outcome {
  double waste = kNever, saved = 0.0;
  int64_t rank = 0;

  // Whether this outcome has less waste; of equal waste the larger reuse (0 where it does not count); then the first.
  bool better(const Outcome& other) const {
    if (waste != other.waste) return waste < other.waste;
    if (saved != other.saved) return saved > other.saved;
    return rank < other.rank;
  }
};

// How the least waste is chosen.
struct Rule {
  bool by_reuse;  // whether the larger reuse wins where targets waste alike, not the first of them
  bool whole;     // whether all sums are of whole numbers and exact, so that no waste is below 0
};

// Evaluates the target that is the load of the longest group and groups[partner]; `pairs` receives the pair of each GPU in order. Gives
// up, with an infinite waste, once the waste must exceed `bound`.
Outcome evaluate(const Groups& groups, Walk& walk, int32_t partner, int64_t gpus, Rule rule, double bound, std::vector<Pair>& pairs) {
  pairs.assign(1, {partner, groups.last()});
  const double target = groups.load(partner, groups.last());
  double most = target, total = 0.0;
  Outcome outcome{kNever, rule.by_reuse ? groups.saving(partner, groups.last()) : 0.0, partner};
  walk.remove(pairs[0]);
  bool open = true;
  if (gpus > 1) walk.begin(target, partner);
  Pair pair;
  while (open && static_cast<int64_t>(pairs.size()) < gpus && walk.nearest(pair)) {
    pairs.push_back(pair);
    const double load = groups.load(pair.head, pair.tail);
    total += load;
    most = std::max(most, load);
    if (rule.by_reuse) outcome.saved += groups.saving(pair.head, pair.tail);
    walk.remove(pair);
    if (static_cast<int64_t>(pairs.size()) < gpus) walk.repair(pair);
    // Every load yet to come, and every idle GPU, can only add to the waste so far under the largest load so far.
    const double floor = static_cast<double>(pairs.size()) * most - target - total;
    open = most < 0.0 || floor <= bound + 1e-12 * static_cast<double>(gpus) * most;
  }
  if (open) outcome.waste = static_cast<double>(gpus) * most - target - total;
  for (auto used = pairs.rbegin(); used != pairs.rend(); ++used) walk.restore(*used);
  return outcome;
}

// Lines 16 to 20: all partners of the longest group; or max_targets of them, evenly spaced, and those it shares snapshots
// with, which are few and the only ones whose reuse a thinned list would miss.
std::vector<int32_t> candidates(const Groups& groups, int64_t max_targets) {
  const int64_t every = groups.last();
  std::vector<int32_t> partners;
  const int64_t count = max_targets == 0 ? every : std::min(max_targets, every);
  for (int64_t k = 0; k < count; ++k) partners.push_back(static_cast<int32_t>(count > 1 ? k * (every - 1) / (count - 1) : 0));
  if (count == every) return partners;
  for (int32_t i = 1; i < every; ++i) {
    if (std::abs(groups.id[i] - groups.id[every]) <= groups.width) partners.push_back(i);
  }
  std::sort(partners.begin(), partners.end());
  partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
  return partners;
}

// Lines 3 to 9: the best of the candidate targets, and its pairs. Where the first target of least waste is wanted, none after one that
// wastes nothing is tried.
void choose(const Groups& groups, int64_t gpus, int64_t max_targets, Rule rule, int threads, std::vector<Walk>& walks,
            std::vector<std::vector<Pair>>& scratch, std::vector<Pair>& chosen) {
  const int64_t every = groups.last();
  const std::vector<int32_t> partners = candidates(groups, max_targets);
  const int64_t count = static_cast<int64_t>(partners.size());
  const int limit = count * every < kWorthHelp ? 1 : threads;
  for (int worker = 0; worker < limit; ++worker) walks[worker].reset(groups);

  Outcome best;
  std::mutex guard;
  std::atomic<double> bound{kNever};
  std::atomic<int64_t> last{every};  // the first target known to waste nothing
  auto body = [&](int64_t k, int worker) {
    if (partners[k] > last.load()) return;
    const Outcome outcome = evaluate(groups, walks[worker], partners[k], gpus, rule, bound.load(), scratch[worker]);
    if (outcome.waste > bound.load()) return;
    std::lock_guard<std::mutex> lock(guard);
    if (!outcome.better(best)) return;
    best = outcome;
    bound = best.waste;
    chosen = scratch[worker];
    if (best.waste == 0.0 && rule.whole && !rule.by_reuse) last = best.rank;
  };
  cs::parallel(count, limit, body);
}

bool valid(const double* numbers, int64_t count) {
  return std::all_of(numbers, numbers + count, [](double v) { return std::isfinite(v) && v >= 0.0; });
}

// Returns an upper bound on every sum of the search: the largest load times all that are added up or idle. Beyond the largest double the
// sums would be infinite, no target would waste least, and the search would not end.
double reach(int64_t groups, const double* times, int64_t width, const double* reuse, int64_t gpus) {
  const double time = *std::max_element(times, times + groups);
  const double saved = width ? *std::max_element(reuse, reuse + groups * width) : 0.0;
  return (2.0 * time + saved) * 2.0 * (2.0 * static_cast<double>(groups) + static_cast<double>(gpus));
}

bool whole(const double* numbers, int64_t count) {
  return std::all_of(numbers, numbers + count, [](double v) { return v == std::floor(v); });
}

int run(int64_t n, const double* times, int64_t width, const double* reuse, int64_t gpus, int64_t max_targets, bool by_reuse,
        int threads, int32_t* iteration, int32_t* gpu, int32_t* slot) {
  const Rule rule{by_reuse, reach(n, times, width, reuse, gpus) < kExact && whole(times, n) && whole(reuse, n * width)};
  Groups groups{{0.0}, {kZero}, std::vector<int32_t>(n), reuse, width};
  groups.id.resize(n + 1);
  std::iota(groups.id.begin() + 1, groups.id.end(), 0);
  std::sort(groups.id.begin() + 1, groups.id.end(),
            [&](int64_t a, int64_t b) { return times[a] != times[b] ? times[a] < times[b] : a < b; });
  for (int64_t i = 1; i <= n; ++i) groups.time.push_back(times[groups.id[i]]);

  threads = threads == 0 ? cs::threads() : std::min(threads, cs::kMostThreads);
  std::vector<Walk> walks(threads);
  std::vector<std::vector<Pair>> scratch(threads);
  std::vector<Pair> chosen;
  const auto place = [&](int64_t id, int32_t when, size_t where, int32_t order) {
    groups.place[id] = -1;
    iteration[id] = when;
    gpu[id] = static_cast<int32_t>(where);
    slot[id] = order;
  };
  int32_t when = 0;
  for (; groups.last() > gpus; ++when) {
    for (int32_t i = 1; i <= groups.last(); ++i) groups.place[groups.id[i]] = i;
    choose(groups, gpus, max_targets, rule, threads, walks, scratch, chosen);
    for (size_t where = 0; where < chosen.size(); ++where) {
      int64_t& head = groups.id[chosen[where].head];
      int64_t& tail = groups.id[chosen[where].tail];
      place(tail, when, where, chosen[where].head != 0 && head < tail);
      if (chosen[where].head) {
        place(head, when, where, tail < head);
        head = -1;
      }
      tail = -1;
    }
    int64_t remaining = 0;
    for (size_t i = 0; i < groups.id.size(); ++i) {
      if (groups.id[i] == -1) continue;
      groups.id[remaining] = groups.id[i];
      groups.time[remaining++] = groups.time[i];
    }
    groups.id.resize(remaining);
    groups.time.resize(remaining);
  }
  for (int32_t i = groups.last(); i >= 1; --i) place(groups.id[i], when, groups.last() - i, 0);
  return CS_OK;
}

}  // namespace

int cs_greedy(int64_t groups, const double* times, int64_t width, const double* reuse, int64_t gpus,
              int64_t max_targets, int by_reuse, int threads, int32_t* out_iteration, int32_t* out_gpu, int32_t* out_slot) {
  if (groups < 0 || groups > std::numeric_limits<int32_t>::max() / 2 || width < 0 || gpus < 1 || max_targets < 0 ||
      threads < 0) {
    return CS_ERROR_ARGUMENT;
  }
  if (groups == 0) return CS_OK;
  if (!times || !out_iteration || !out_gpu || !out_slot || (width > 0 && !reuse)) return CS_ERROR_ARGUMENT;
  if (!valid(times, groups) || !valid(reuse, groups * width)) return CS_ERROR_ARGUMENT;
  if (!std::isfinite(reach(groups, times, width, reuse, gpus))) return CS_ERROR_ARGUMENT;
  return cs::guarded([&] {
    return run(groups, times, width, reuse, gpus, max_targets, by_reuse != 0, threads, out_iteration, out_gpu, out_slot);
  });
}
