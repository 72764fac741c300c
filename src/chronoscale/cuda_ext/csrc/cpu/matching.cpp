// Pairing of groups that share a GPU when reuse counts (REAL-G+: REAL, eq. 9-12), with the choices of reference/matching.py.
//
// GPUs of an iteration are alike, so a schedule is a matching of the groups: its seats (pairs, and single groups) sorted by load and
// cut into runs of one seat a GPU are the best iterations there are, and the makespan is the sum of every gpus-th load from the largest.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "pool.h"
#include "splitmix.h"

namespace {

constexpr int64_t kMaxWidth = 12;     // 2^width states a group
constexpr int64_t kMoveWork = 16;     // what a move costs beside the iterations it looks at
constexpr int64_t kAcceptShare = 16;  // seats that shift for one unit of work
constexpr int64_t kMostWork = int64_t{1} << 62;  // adding one more move does not overflow

// Returns the most weight of a matching in which groups at most `width` apart pair, and its partners in `mate`: dynamic programming from
// the last group on. best[mask]: most weight from this group on when bit k says that group + k has a partner before it. O(n * 2^width *
// width).
double band(int64_t n, int64_t width, const double* weight, int32_t* mate) {
  const int64_t states = int64_t{1} << width;
  std::vector<double> next(states, 0.0), best(states);
  std::vector<uint8_t> choice(n * states, 0);  // 0: single, or paired before; k + 1: with group i + k + 1
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t mask = 0; mask < states; ++mask) {
      double most = next[mask >> 1];
      uint8_t chosen = 0;
      if (!(mask & 1)) {
        for (int64_t k = 0; k < width && i + k + 1 < n; ++k) {
          if (mask >> (k + 1) & 1) continue;
          const double total = weight[i * width + k] + next[(mask | int64_t{1} << (k + 1)) >> 1];
          if (total > most) {
            most = total;
            chosen = static_cast<uint8_t>(k + 1);
          }
        }
      }
      best[mask] = most;
      choice[i * states + mask] = chosen;
    }
    std::swap(best, next);
  }
  std::fill(mate, mate + n, -1);
  int64_t mask = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (const int64_t k = choice[i * states + mask]) {
      mate[i] = static_cast<int32_t>(i + k);
      mate[i + k] = static_cast<int32_t>(i);
      mask |= int64_t{1} << k;
    }
    mask >>= 1;
  }
  return next[0];
}

struct Random {
  uint64_t state;
  uint64_t next() { return cs::mixed(state += cs::kStep); }
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
};

struct Seat {
  double load;
  int32_t first, second;  // second -1: none

  bool before(const Seat& other) const { return load != other.load ? load > other.load : first < other.first; }
};

class Exchange {
 public:
  Exchange(int64_t n, const double* times, int64_t width, const double* reuse, int64_t gpus, double alpha, double pull,
           int32_t* mate)
      : n_(n), times_(times), width_(width), reuse_(reuse), gpus_(gpus), alpha_(alpha), pull_(pull / gpus), mate_(mate) {
    for (int32_t i = 0; i < n; ++i) {
      if (mate[i] < 0 || mate[i] > i) seats_.push_back(seat(i, mate[i]));
    }
    std::sort(seats_.begin(), seats_.end(), [](const Seat& a, const Seat& b) { return a.before(b); });
  }

  // Improves the matching by threshold accepting: a move that worsens it by at most a threshold is accepted, and the threshold falls to 0
  // as the work is used up.
  double run(int64_t budget, double threshold, uint64_t seed) {
    Random random{seed};
    double now = makespan(), least = now;
    std::vector<int32_t> best_mate(mate_, mate_ + n_);
    for (int64_t work = 0; work < budget;) {
      const double limit = threshold * (1.0 - static_cast<double>(work) / static_cast<double>(budget));
      work += kMoveWork;
      if (!propose(random)) continue;
      Change best{std::numeric_limits<double>::infinity(), 0.0, {}, 0};
      for (const Option& option : options_) {
        const Change change = evaluate(option, work);
        if (change.score < best.score) best = change;
      }
      if (!(best.score <= limit)) continue;
      apply(best);
      work += static_cast<int64_t>(seats_.size()) / kAcceptShare;
      now += best.gain;
      if (now < least) {
        least = now;
        std::copy(mate_, mate_ + n_, best_mate.begin());
        work += n_ / kAcceptShare;
      }
    }
    std::copy(best_mate.begin(), best_mate.end(), mate_);
    return least;
  }

 private:
  struct Option {
    Seat seats[2];
    int count;
  };
  struct Change {
    double score, gain;  // what acceptance compares; the makespan's change
    Seat seats[2];
    int count;
  };

  double load(int32_t a, int32_t b) const {
    if (b < 0) return times_[a];
    const int64_t i = std::min(a, b), k = std::max(a, b) - i - 1;
    return times_[a] + times_[b] - (k < width_ ? reuse_[i * width_ + k] : 0.0);
  }
  Seat seat(int32_t a, int32_t b) const { return {load(a, b), b < 0 ? a : std::min(a, b), b < 0 ? -1 : std::max(a, b)}; }

  double makespan() const {
    double total = 0.0;
    for (size_t i = 0; i < seats_.size(); i += gpus_) total += seats_[i].load + alpha_;
    return total;
  }

  int64_t find(const Seat& seat) const {
    return std::lower_bound(seats_.begin(), seats_.end(), seat, [](const Seat& a, const Seat& b) { return a.before(b); }) -
           seats_.begin();
  }

  // Draws two seats, or one and an empty one, and lists the other ways to seat their groups.
  bool propose(Random& random) {
    const int64_t count = static_cast<int64_t>(seats_.size()), iterations = (count + gpus_ - 1) / gpus_;
    const uint64_t kind = random.next();
    const int64_t x = kind % 4 ? random.below(iterations) * gpus_ : random.below(count);  // mostly one that an iteration waits for
    const Seat& a = seats_[x];
    int64_t y = -1;
    options_.clear();
    replaced_.assign(1, x);
    if (kind / 4 % 4 < 2 && width_ > 0) {
      const int32_t from = a.second >= 0 && kind / 16 % 2 ? a.second : a.first;
      const int64_t step = 1 + random.below(width_), to = kind / 32 % 2 ? from + step : from - step;
      if (to < 0 || to >= n_) return false;
      y = find(seat(static_cast<int32_t>(to), mate_[to]));
    } else if (kind / 4 % 4 == 2 && a.second >= 0) {
      options_.push_back({{seat(a.first, -1), seat(a.second, -1)}, 2});
      return true;
    } else {
      y = random.below(count);
    }
    if (y == x) return false;
    replaced_.push_back(y);
    std::sort(replaced_.begin(), replaced_.end());
    const Seat& b = seats_[y];
    if (a.second >= 0 && b.second >= 0) {
      options_.push_back({{seat(a.first, b.first), seat(a.second, b.second)}, 2});
      options_.push_back({{seat(a.first, b.second), seat(a.second, b.first)}, 2});
    } else if (a.second < 0 && b.second < 0) {
      options_.push_back({{seat(a.first, b.first), {}}, 1});
    } else {
      const Seat &pair = a.second < 0 ? b : a, &single = a.second < 0 ? a : b;
      options_.push_back({{seat(pair.first, single.first), seat(pair.second, -1)}, 2});
      options_.push_back({{seat(pair.second, single.first), seat(pair.first, -1)}, 2});
    }
    return true;
  }

  // Returns the change of the makespan by an option: of the loads at every gpus-th place, of which only those between the changed ones
  // differ.
  Change evaluate(Option option, int64_t& work) const {
    if (option.count == 2 && option.seats[1].before(option.seats[0])) std::swap(option.seats[0], option.seats[1]);
    const int64_t count = static_cast<int64_t>(seats_.size()), left = static_cast<int64_t>(replaced_.size());
    int64_t into[2] = {0, 0};  // where the new seats go among those that stay
    double gain = 0.0, moved = 0.0;
    for (int j = 0; j < option.count; ++j) {
      into[j] = find(option.seats[j]);
      int64_t before = 0;
      for (const int64_t place : replaced_) before += place < into[j];
      into[j] += j - before;
      moved += option.seats[j].load;
    }
    for (const int64_t place : replaced_) moved -= seats_[place].load;
    const int64_t after = count - left + option.count;
    const int64_t low = std::min(replaced_[0], into[0]);
    const int64_t high = after == count ? std::max(replaced_[left - 1], into[option.count - 1]) + 1 : std::max(count, after);
    for (int64_t q = (low + gpus_ - 1) / gpus_ * gpus_; q < high; q += gpus_) {
      ++work;
      if (q < count) gain -= seats_[q].load + alpha_;
      if (q >= after) continue;
      double value = 0.0;
      if (q == into[0]) {
        value = option.seats[0].load;
      } else if (option.count == 2 && q == into[1]) {
        value = option.seats[1].load;
      } else {
        int64_t from = q - (q > into[0]) - (option.count == 2 && q > into[1]);
        for (const int64_t place : replaced_) from += place <= from;
        value = seats_[from].load;
      }
      gain += value + alpha_;
    }
    return {gain + pull_ * moved, gain, {option.seats[0], option.seats[1]}, option.count};
  }

  void apply(const Change& change) {
    for (size_t k = replaced_.size(); k-- > 0;) seats_.erase(seats_.begin() + replaced_[k]);
    for (int j = 0; j < change.count; ++j) {
      const Seat& seat = change.seats[j];
      seats_.insert(seats_.begin() + find(seat), seat);
      mate_[seat.first] = seat.second;
      if (seat.second >= 0) mate_[seat.second] = seat.first;
    }
  }

  int64_t n_;
  const double* times_;
  int64_t width_;
  const double* reuse_;
  int64_t gpus_;
  double alpha_, pull_;
  int32_t* mate_;
  std::vector<Seat> seats_;  // by falling load
  std::vector<Option> options_;
  std::vector<int64_t> replaced_;  // places of the seats that a move takes apart, ascending
};

bool finite(const double* numbers, int64_t count) {
  return std::all_of(numbers, numbers + count, [](double v) { return std::isfinite(v); });
}

}  // namespace

int cs_band_matching(int64_t n, int64_t width, const double* weight, int32_t* out_mate, double* out_total) {
  if (n < 0 || n > std::numeric_limits<int32_t>::max() / 2 || width < 0 || width > kMaxWidth) return CS_ERROR_ARGUMENT;
  if (!out_total || (n > 0 && (!out_mate || (width > 0 && !weight))) || !finite(weight, n * width)) return CS_ERROR_ARGUMENT;
  return cs::guarded([&] {
    *out_total = band(n, width, weight, out_mate);
    return CS_OK;
  });
}

int cs_exchange(int64_t n, const double* times, int64_t width, const double* reuse, int64_t gpus, double alpha, double pull,
                double threshold, int64_t work, uint64_t seed, int32_t* mate, double* out_makespan) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (n < 1 || n > most / 2 || width < 0 || gpus < 1 || gpus > most || work < 0 || work > kMostWork) return CS_ERROR_ARGUMENT;
  if (!times || !mate || !out_makespan || (width > 0 && !reuse)) return CS_ERROR_ARGUMENT;
  if (!finite(times, n) || !finite(reuse, n * width)) return CS_ERROR_ARGUMENT;
  for (int64_t i = 0; i < n; ++i) {
    if (mate[i] < -1 || mate[i] >= n || mate[i] == i || (mate[i] >= 0 && mate[mate[i]] != i)) return CS_ERROR_ARGUMENT;
  }
  return cs::guarded([&] {
    *out_makespan = Exchange(n, times, width, reuse, gpus, alpha, pull, mate).run(work, threshold, seed);
    return CS_OK;
  });
}
