#include "crowd.h"

#include <algorithm>
#include <array>

namespace cs {

namespace {

constexpr int kDigit = 11;  // bits that are sorted by at a time
constexpr int kTurns = 4;   // after so many all that take anything are in: replays that only find more cost more than they save

}  // namespace

Crowd::Crowd(const Takes& takes, int64_t rows, const int64_t* ns) : takes_(takes) {
  if (!takes.ptr) return;
  for (int64_t i = 0; i < rows; ++i) {
    if (takes.ptr[i] < takes.ptr[i + 1] && takes.delay[i] < ns[i]) takers_.push_back(static_cast<int32_t>(i));
  }
  if (!takers_.empty()) among_.resize(rows);
}

bool Crowd::grow(const int64_t* start, const int64_t* end, bool lingers) {
  const int64_t before = count_, most = static_cast<int64_t>(takers_.size());
  if (before == most) return false;
  line_up(start, end);
  in_.assign(takes_.resources, {});
  for (const Begin& b : begins_) {
    for (int64_t p = takes_.ptr[b.row]; p < takes_.ptr[b.row + 1]; ++p) {
      enter(in_[takes_.resource[p]], {end[b.row], units(takes_.share[p]), b.row}, b.time, lingers);
    }
  }
  if (count_ > before && (++turn_ == kTurns || 2 * count_ > most)) std::for_each(takers_.begin(), takers_.end(), [&](int32_t i) { add(i); });
  return count_ > before;
}

// Those that run, in the order in which they begin to take what they take.
void Crowd::line_up(const int64_t* start, const int64_t* end) {
  begins_.clear();
  int64_t last = 0;
  for (const int32_t i : takers_) {
    if (end[i] < 0) continue;
    begins_.push_back({start[i] + takes_.delay[i], i});
    last = std::max(last, begins_.back().time);
  }
  spare_.resize(begins_.size());
  for (int shift = 0; shift < 63 && last >> shift; shift += kDigit) {
    std::array<size_t, (1 << kDigit) + 1> place{};
    const auto digit = [&](const Begin& b) { return static_cast<size_t>(b.time >> shift) & ((1 << kDigit) - 1); };
    for (const Begin& b : begins_) ++place[digit(b) + 1];
    for (size_t d = 0; d < 1 << kDigit; ++d) place[d + 1] += place[d];
    for (const Begin& b : begins_) spare_[place[digit(b)]++] = b;
    begins_.swap(spare_);
  }
}

void Crowd::enter(Resource& r, const Active& one, int64_t now, bool lingers) {
  r.active.push_back(one);
  r.load += one.units;
  if (r.load <= kWhole) return;
  size_t left = 0;
  for (const Active& a : r.active) {
    if (a.end + (lingers && among_[a.row]) > now) r.active[left++] = a; else r.load -= a.units;
  }
  r.active.resize(left);
  if (r.load > kWhole) std::for_each(r.active.begin(), r.active.end(), [&](const Active& a) { add(a.row); });
}

void Crowd::add(int64_t row) {
  count_ += !among_[row];
  among_[row] = 1;
}

}  // namespace cs
