// Greedy assignment of groups of snapshots to GPUs (REAL-G: REAL, section 5.3, Algorithm 1), with the published choices in less than its
// O(n^3). cs_greedy serves scheduling/greedy.py.
//
// GetPairs runs D - 1 two-pointer searches that differ by one removed pair each. The walk of a search depends only on
// the comparisons it makes, so removing a pair changes the walk only from where it first meets one of the two groups
// to where it joins the old walk again. The walk is therefore stored, with the gap |T - target| of each of its steps,
// and only that stretch is repaired: a target costs O(n + D * (stretch + n / 64)) instead of O(D * n).
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <numeric>
#include <vector>

#include "pool.h"

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kZero = std::numeric_limits<int64_t>::min() / 2;  // id of the zero group: in nobody's band
constexpr int32_t kBlock = 64;
constexpr int64_t kWorthHelp = 1 << 16;  // steps of walking below which helpers are not woken

// Groups that no GPU has yet, ascending by time; index 0 is the zero group, which is never used up.
struct Groups {
  std::vector<double> time;
  std::vector<int64_t> id;
  const double* reuse;
  int64_t width;

  int32_t last() const { return static_cast<int32_t>(time.size()) - 1; }

  double saving(int32_t a, int32_t b) const {
    const int64_t i = std::min(id[a], id[b]), k = std::max(id[a], id[b]) - i - 1;
    return k < width ? reuse[i * width + k] : 0.0;
  }

  double load(int32_t a, int32_t b) const { return time[a] + time[b] - saving(a, b); }
};

struct Pair {
  int32_t head, tail;
};

struct Outcome {
  double waste = kNever, saved = 0.0;
  int64_t rank = 0;

  // Whether this outcome has less waste; of equal waste the larger reuse; then the first.
  bool better(const Outcome& other) const {
    if (waste != other.waste) return waste < other.waste;
    if (saved != other.saved) return saved > other.saved;
    return rank < other.rank;
  }
};

class Search {
 public:
  void reset(const Groups& groups) {
    groups_ = &groups;
    size_ = groups.last();
    next_.resize(size_ + 2);
    prev_.resize(size_ + 2);
    std::iota(next_.begin(), next_.end(), 1);
    std::iota(prev_.begin(), prev_.end(), -1);
    head_.resize(size_ + kBlock);
    gap_.resize(size_ + kBlock);
    least_.resize((size_ + kBlock - 1) / kBlock);
  }

  // Evaluates the target that is the load of the longest group and groups[partner]; `pairs` receives the pair of each GPU in order. Gives
  // up, with an infinite waste, once the waste must exceed `bound`.
  Outcome evaluate(int32_t partner, int64_t gpus, double bound, std::vector<Pair>& pairs) {
    const Groups& g = *groups_;
    pairs.assign(1, {partner, size_});
    target_ = g.load(partner, size_);
    double most = target_, total = 0.0;
    Outcome outcome{kNever, g.saving(partner, size_), partner};
    remove(pairs[0]);
    bool open = true;
    if (gpus > 1) walk();
    while (open && static_cast<int64_t>(pairs.size()) < gpus) {
      const int32_t step = best();
      if (step < 0) break;
      const Pair pair{head_[step], tail(step)};
      pairs.push_back(pair);
      const double load = g.load(pair.head, pair.tail);
      total += load;
      most = std::max(most, load);
      outcome.saved += g.saving(pair.head, pair.tail);
      remove(pair);
      if (static_cast<int64_t>(pairs.size()) < gpus) rewalk(step, pair);
      // Every load yet to come, and every idle GPU, can only add to the waste so far under the largest load so far.
      const double floor = static_cast<double>(pairs.size()) * most - target_ - total;
      open = most < 0.0 || floor <= bound + 1e-12 * static_cast<double>(gpus) * most;
    }
    if (open) outcome.waste = static_cast<double>(gpus) * most - target_ - total;
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) restore(*pair);
    return outcome;
  }

 private:
  // A step of a walk is the state (head, tail), stored at head - tail + size: no two steps share it and it only grows.
  int32_t at(int32_t head, int32_t tail) const { return head - tail + size_; }
  int32_t tail(int32_t step) const { return head_[step] - step + size_; }

  void unlink(int32_t i) {
    next_[prev_[i]] = next_[i];
    prev_[next_[i]] = prev_[i];
  }
  void relink(int32_t i) { next_[prev_[i]] = prev_[next_[i]] = i; }
  void remove(Pair p) {
    unlink(p.tail);
    if (p.head) unlink(p.head);
  }
  void restore(Pair p) {
    if (p.head) relink(p.head);
    relink(p.tail);
  }

  void advance(int32_t& head, int32_t& tail) const {
    if (groups_->load(head, tail) < target_) head = next_[head]; else tail = prev_[tail];
  }

  void walk() {
    std::fill(gap_.begin(), gap_.end(), kNever);
    int32_t head = 0, tail = prev_[size_ + 1];
    while (head < tail) {
      const double load = groups_->load(head, tail);
      const int32_t step = at(head, tail);
      gap_[step] = std::fabs(load - target_);
      head_[step] = head;
      if (load < target_) head = next_[head]; else tail = prev_[tail];
    }
    summarise(0, size_ - 1);
  }

  // Repairs the walk after the pair at `pair_step` was removed.
  void rewalk(int32_t pair_step, Pair removed) {
    int32_t before = pair_step - 1;
    gap_[pair_step] = kNever;
    for (; before >= 0; --before) {
      if (gap_[before] == kNever) continue;
      if (tail(before) != removed.tail && (head_[before] != removed.head || !removed.head)) break;
      gap_[before] = kNever;
    }
    int32_t head = 0, tail = prev_[size_ + 1];
    if (before >= 0) {
      head = head_[before];
      tail = this->tail(before);
      advance(head, tail);
    }
    int32_t clear = before + 1;  // old steps from here to the new one have left the walk
    while (head < tail) {
      const int32_t step = at(head, tail);
      for (; clear < step; ++clear) gap_[clear] = kNever;
      // Beyond `pair_step` an old step with this head has this tail too; neither can be a removed group.
      if (step > pair_step && gap_[step] != kNever && head_[step] == head) break;
      const double load = groups_->load(head, tail);
      gap_[step] = std::fabs(load - target_);
      head_[step] = head;
      clear = step + 1;
      if (load < target_) head = next_[head]; else tail = prev_[tail];
    }
    if (head >= tail) {
      for (; clear < size_; ++clear) gap_[clear] = kNever;
    }
    summarise(std::max(before, 0), std::max(std::min(clear, size_ - 1), pair_step));
  }

  void summarise(int32_t from, int32_t to) {
    for (int32_t block = from / kBlock; block <= to / kBlock; ++block) {
      const double* gap = &gap_[block * kBlock];
      double least[4] = {gap[0], gap[1], gap[2], gap[3]};
      for (int32_t i = 4; i < kBlock; i += 4) {
        for (int32_t k = 0; k < 4; ++k) least[k] = gap[i + k] < least[k] ? gap[i + k] : least[k];
      }
      least_[block] = std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
    }
  }

  // The first step of least gap, or -1: the strict < of line 27.
  int32_t best() const {
    const auto block = std::min_element(least_.begin(), least_.end());
    if (*block == kNever) return -1;
    int32_t step = static_cast<int32_t>(block - least_.begin()) * kBlock;
    while (gap_[step] != *block) ++step;
    return step;
  }

  const Groups* groups_ = nullptr;
  int32_t size_ = 0;  // groups left but for the zero group
  double target_ = 0.0;
  std::vector<int32_t> next_, prev_, head_;
  std::vector<double> gap_, least_;
};

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

// Lines 3 to 9: the best of the candidate targets, and its pairs.
void choose(const Groups& groups, int64_t gpus, int64_t max_targets, int threads, std::vector<Search>& searches,
            std::vector<std::vector<Pair>>& scratch, std::vector<Pair>& chosen) {
  const int64_t every = groups.last();
  const std::vector<int32_t> partners = candidates(groups, max_targets);
  const int64_t count = static_cast<int64_t>(partners.size());
  const int limit = count * every < kWorthHelp ? 1 : threads;
  for (int worker = 0; worker < limit; ++worker) searches[worker].reset(groups);

  Outcome best;
  std::mutex guard;
  std::atomic<double> bound{kNever};
  auto body = [&](int64_t k, int worker) {
    const Outcome outcome = searches[worker].evaluate(partners[k], gpus, bound.load(), scratch[worker]);
    if (outcome.waste > bound.load()) return;
    std::lock_guard<std::mutex> lock(guard);
    if (!outcome.better(best)) return;
    best = outcome;
    bound = best.waste;
    chosen = scratch[worker];
  };
  cs::parallel(count, limit, body);
}

int run(int64_t n, const double* times, int64_t width, const double* reuse, int64_t gpus, int64_t max_targets,
        int threads, int32_t* iteration, int32_t* gpu, int32_t* slot) {
  Groups groups{{0.0}, {kZero}, reuse, width};
  groups.id.resize(n + 1);
  std::iota(groups.id.begin() + 1, groups.id.end(), 0);
  std::sort(groups.id.begin() + 1, groups.id.end(),
            [&](int64_t a, int64_t b) { return times[a] != times[b] ? times[a] < times[b] : a < b; });
  for (int64_t i = 1; i <= n; ++i) groups.time.push_back(times[groups.id[i]]);

  threads = threads == 0 ? cs::threads() : std::min(threads, cs::kMostThreads);
  std::vector<Search> searches(threads);
  std::vector<std::vector<Pair>> scratch(threads);
  std::vector<Pair> chosen;
  const auto place = [&](int64_t id, int32_t when, size_t where, int32_t order) {
    iteration[id] = when;
    gpu[id] = static_cast<int32_t>(where);
    slot[id] = order;
  };
  int32_t when = 0;
  for (; groups.last() > gpus; ++when) {
    choose(groups, gpus, max_targets, threads, searches, scratch, chosen);
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

}  // namespace

int cs_greedy(int64_t groups, const double* times, int64_t width, const double* reuse, int64_t gpus,
              int64_t max_targets, int threads, int32_t* out_iteration, int32_t* out_gpu, int32_t* out_slot) {
  if (groups < 0 || groups > std::numeric_limits<int32_t>::max() / 2 || width < 0 || gpus < 1 || max_targets < 0 ||
      threads < 0) {
    return CS_ERROR_ARGUMENT;
  }
  if (groups == 0) return CS_OK;
  if (!times || !out_iteration || !out_gpu || !out_slot || (width > 0 && !reuse)) return CS_ERROR_ARGUMENT;
  if (!valid(times, groups) || !valid(reuse, groups * width)) return CS_ERROR_ARGUMENT;
  if (!std::isfinite(reach(groups, times, width, reuse, gpus))) return CS_ERROR_ARGUMENT;
  return cs::guarded(
      [&] { return run(groups, times, width, reuse, gpus, max_targets, threads, out_iteration, out_gpu, out_slot); });
}
