// The two-point search of REAL's Algorithm 1 (GetPairs, lines 21 to 31) over groups in ascending order of time, repaired after each pair
// that it gives instead of made anew.
//
// The walk of a search starts at (head, tail) = (first, last) and moves head up where the load of the two is below the target, tail down
// where it is not. It depends on these comparisons alone, so that removing a pair changes it only from where it first meets one of the two
// groups to where it joins the old walk again. Along a stretch of the walk with the same tail, or the same head, the load comes nearer to
// the target with every step but at the few pairs that share snapshots, so that only the last of such a stretch (the first of those that
// are equally near) can be the nearest of all: stretches are leapt over, and one step of each is kept, with its gap |load - target|.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kZero = std::numeric_limits<int64_t>::min() / 2;  // id of the zero group: in nobody's band
constexpr int32_t kBlock = 64;

// Groups that no GPU has yet, ascending by time; index 0 is the zero group, which is never used up.
struct Groups {
  std::vector<double> time;
  std::vector<int64_t> id;
  std::vector<int32_t> place;  // by id: index of a group, -1 once it has a GPU
  const double* reuse;
  int64_t width;

  int32_t last() const { return static_cast<int32_t>(time.size()) - 1; }

  // Whether two groups are so near that they may share snapshots.
  bool near(int32_t a, int32_t b) const { return std::abs(id[a] - id[b]) <= width; }

  double saving(int32_t a, int32_t b) const {
    const int64_t i = std::min(id[a], id[b]), k = std::max(id[a], id[b]) - i - 1;
    return k < width ? reuse[i * width + k] : 0.0;
  }

  double load(int32_t a, int32_t b) const { return time[a] + time[b] - saving(a, b); }
};

struct Pair {
  int32_t head, tail;
};

class Walk {
 public:
  // Takes the groups but for the last one, which is the target's.
  void reset(const Groups& groups) {
    groups_ = &groups;
    size_ = groups.last();
    left_.assign(size_ / 64 + 1, ~uint64_t{0});
    head_.resize(size_ + kBlock);
    gap_.assign(size_ + kBlock, kNever);
    least_.resize((size_ + kBlock - 1) / kBlock);
  }

  // Begins a search for a target, from which its pair, the longest group and `partner`, is removed. All steps of this walk are kept.
  void begin(double target, int32_t partner) {
    const Groups& g = *groups_;
    target_ = target;
    clear_ = 0;
    const int32_t gone = partner ? partner : size_;
    int32_t head = 0, tail = below(size_ - 1);
    while (head < tail) {
      const double load = g.load(head, tail);
      const int32_t step = at(head, tail);
      for (; clear_ < step; ++clear_) gap_[clear_] = kNever;
      gap_[step] = std::fabs(load - target);
      head_[step] = head;
      clear_ = step + 1;
      if (load < target) {
        if (++head == gone) ++head;
      } else {
        if (--tail == gone) --tail;
      }
    }
    for (; clear_ < size_; ++clear_) gap_[clear_] = kNever;
    summarise(0, size_ - 1);
  }

  // Returns the pair nearest to the target, the first of several; false where fewer than two groups are left.
  bool nearest(Pair& pair) {
    const double least = minimum(least_.data(), static_cast<int32_t>(least_.size()));
    if (least == kNever) return false;
    int32_t block = 0;
    while (least_[block] != least) ++block;
    step_ = block * kBlock;
    while (gap_[step_] != least) ++step_;
    pair = {head_[step_], tail(step_)};
    return true;
  }

  void remove(Pair pair) {
    if (pair.head) left_[pair.head / 64] &= ~(uint64_t{1} << pair.head % 64);
    left_[pair.tail / 64] &= ~(uint64_t{1} << pair.tail % 64);
  }

  void restore(Pair pair) {
    left_[pair.head / 64] |= uint64_t{1} << pair.head % 64;
    left_[pair.tail / 64] |= uint64_t{1} << pair.tail % 64;
  }

  // Repairs the walk after the pair that `nearest` returned last was removed.
  void repair(Pair removed) {
    const int32_t met = step_;
    int32_t before = met;
    for (; before >= 0; --before) {
      if (before % kBlock == kBlock - 1 && least_[before / kBlock] == kNever) {
        before -= kBlock - 1;
        continue;
      }
      if (gap_[before] == kNever) continue;
      if (tail(before) != removed.tail && (head_[before] != removed.head || !removed.head)) break;
      gap_[before] = kNever;
    }
    clear_ = std::max(before, 0);
    if (before < 0) {
      follow(0, below(size_ - 1), met);
    } else {
      follow(head_[before], tail(before), met);
    }
    summarise(std::max(before, 0), std::max(std::min(clear_, size_ - 1), met));
  }

 private:
  // A step of a walk is the state (head, tail), stored at head - tail + size: no two steps share it and it only grows.
  int32_t at(int32_t head, int32_t tail) const { return head - tail + size_; }
  int32_t tail(int32_t step) const { return head_[step] - step + size_; }

  // The first group left from `place` on (size_, which is never left, where there is none), and the last one up to it.
  int32_t above(int32_t place) const {
    if (place >= size_) return size_;
    int32_t word = place / 64;
    uint64_t bits = left_[word] >> place % 64 << place % 64;
    while (!bits) {
      if (++word * 64 >= size_) return size_;
      bits = left_[word];
    }
    return std::min(word * 64 + __builtin_ctzll(bits), size_);
  }
  int32_t below(int32_t place) const {
    int32_t word = place / 64;
    uint64_t bits = left_[word] << (63 - place % 64) >> (63 - place % 64);
    while (!bits) bits = left_[--word];  // the zero group is always left
    return word * 64 + 63 - __builtin_clzll(bits);
  }

  // The lowest place in (from, to) of a group that may share snapshots with `of`, or `to`; and the highest, or `from`.
  int32_t next_near(int32_t of, int32_t from, int32_t to) const {
    each_near(of, [&](int32_t place) { to = place > from && place < to ? place : to; });
    return to;
  }
  int32_t last_near(int32_t of, int32_t from, int32_t to) const {
    each_near(of, [&](int32_t place) { from = place > from && place < to ? place : from; });
    return from;
  }
  template <class F>
  void each_near(int32_t of, F f) const {
    const Groups& g = *groups_;
    if (!of) return;
    const int64_t first = std::max<int64_t>(g.id[of] - g.width, 0);
    const int64_t last = std::min<int64_t>(g.id[of] + g.width, static_cast<int64_t>(g.place.size()) - 1);
    for (int64_t id = first; id <= last; ++id) f(g.place[id]);
  }

  // Goes on from a state, and stops where the old walk is met beyond the step `met`.
  void follow(int32_t head, int32_t tail, int32_t met) {
    const Groups& g = *groups_;
    const double* time = g.time.data();
    while (head < tail) {
      if (g.near(head, tail)) {
        const double load = g.load(head, tail);
        if (keep(head, tail, std::fabs(load - target_), met)) return;
        if (load < target_) head = above(head + 1); else tail = below(tail - 1);
      } else if (time[head] + time[tail] < target_) {
        const int32_t end = leap([&](int32_t place) { return time[place] + time[tail] < target_; }, head, next_near(tail, head, tail), 1);
        int32_t nearest = below(end - 1);
        const double gap = std::fabs(time[nearest] + time[tail] - target_);
        for (int32_t p = nearest; p > head && std::fabs(time[p = below(p - 1)] + time[tail] - target_) == gap;) nearest = p;
        if (keep(nearest, tail, gap, met)) return;
        head = above(end);
      } else {
        const int32_t end = leap([&](int32_t place) { return time[head] + time[place] >= target_; }, tail, last_near(head, head, tail), -1);
        int32_t nearest = above(end + 1);
        const double gap = std::fabs(time[head] + time[nearest] - target_);
        for (int32_t p = nearest; p < tail && std::fabs(time[head] + time[p = above(p + 1)] - target_) == gap;) nearest = p;
        if (keep(head, nearest, gap, met)) return;
        tail = below(end);
      }
    }
    for (; clear_ < size_; ++clear_) gap_[clear_] = kNever;
  }

  // Returns the first place from `from` towards `to` that does not pass, or `to`; those that pass come first.
  template <class F>
  static int32_t leap(F passes, int32_t from, int32_t to, int32_t way) {
    int32_t stride = 1, distance = (to - from) * way, sure = 0;
    while (sure + stride < distance && passes(from + (sure + stride) * way)) sure += stride, stride *= 2;
    int32_t not_sure = std::min(sure + stride, distance);
    while (not_sure - sure > 1) {
      const int32_t middle = (sure + not_sure) / 2;
      (passes(from + middle * way) ? sure : not_sure) = middle;
    }
    return from + not_sure * way;
  }

  // Keeps a step, unless it is one of the old walk beyond `met`: then it returns true.
  bool keep(int32_t head, int32_t tail, double gap, int32_t met) {
    const int32_t step = at(head, tail);
    for (; clear_ < step; ++clear_) gap_[clear_] = kNever;  // old steps from here to the new one have left the walk
    // Beyond `met` an old step with this head has this tail, too; neither can be a removed group.
    if (step > met && gap_[step] != kNever && head_[step] == head) return true;
    gap_[step] = gap;
    head_[step] = head;
    clear_ = step + 1;
    return false;
  }

  static double minimum(const double* numbers, int32_t count) {
    double least[8];
    std::fill(least, least + 8, kNever);
    int32_t i = 0;
    for (; i + 8 <= count; i += 8) {
      for (int32_t k = 0; k < 8; ++k) least[k] = numbers[i + k] < least[k] ? numbers[i + k] : least[k];
    }
    for (; i < count; ++i) least[0] = std::min(least[0], numbers[i]);
    return *std::min_element(least, least + 8);
  }

  void summarise(int32_t from, int32_t to) {
    for (int32_t block = from / kBlock; block <= to / kBlock; ++block) least_[block] = minimum(&gap_[block * kBlock], kBlock);
  }

  const Groups* groups_ = nullptr;
  int32_t size_ = 0, step_ = 0, clear_ = 0;
  double target_ = 0.0;
  std::vector<uint64_t> left_;
  std::vector<int32_t> head_;
  std::vector<double> gap_, least_;
};

}  // namespace
