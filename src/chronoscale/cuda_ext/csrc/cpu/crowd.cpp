// Search for contended rows: one sweep over the rows of each resource.
#include "crowd.h"

#include <algorithm>
#include <array>

namespace cs {

namespace {

constexpr int kDigit = 11;  // bits that are sorted by at a time
constexpr int kTurns = 4;   // after so many replays, or when most rows are in, all are added: further replays would cost more than they save

}  // namespace

Crowd::Crowd(const Takes& takes, int64_t rows, const int64_t* ns, const uint8_t* contended) : takes_(takes) {
  if (!takes.ptr) return;
  for (int64_t i = 0; i < rows; ++i) {
    if (takes.ptr[i] < takes.ptr[i + 1] && takes.delay[i] < ns[i]) takers_.push_back(static_cast<int32_t>(i));
  }
  if (takers_.empty()) return;
  among_.resize(rows);
  for (const int32_t i : takers_) {
    if (contended && contended[i]) add(i);
  }
}

bool Crowd::grow(const int64_t* start, const int64_t* end) {
  const int64_t before = count_, most = static_cast<int64_t>(takers_.size());
  if (before == most) return false;
  begins_.clear();
  for (const int32_t i : takers_) {
    if (end[i] >= 0) begins_.push_back({start[i] + takes_.delay[i], i});
  }
  in_.assign(takes_.resources, {});
  sweep(end, false);
  if (count_ > before && 2 * count_ > most) return fill();
  const auto ordered = [&](int32_t number) { return !in_[number].disordered; };
  const auto new_end = std::remove_if(begins_.begin(), begins_.end(), [&](const Begin& b) {
    return std::all_of(takes_.resource + takes_.ptr[b.row], takes_.resource + takes_.ptr[b.row + 1], ordered);
  });
  begins_.erase(new_end, begins_.end());
  sort();
  sweep(end, true);
  if (count_ > before && (2 * count_ > most || ++turn_ == kTurns)) return fill();
  return count_ > before;
}

bool Crowd::fill() {
  std::for_each(takers_.begin(), takers_.end(), [&](int32_t i) { add(i); });
  return true;
}

// Adds rows that overlap, in the order of begins_: schedules mostly list rows as they run. A second sweep, with begins_ sorted, serves the
// resources whose rows do not begin in that order.
void Crowd::sweep(const int64_t* end, bool sorted) {
  for (const Begin& b : begins_) {
    for (int64_t p = takes_.ptr[b.row]; p < takes_.ptr[b.row + 1]; ++p) {
      Resource& r = in_[takes_.resource[p]];
      if (!sorted && b.time < r.last) r = Resource{true};
      if (r.disordered != sorted) continue;
      r.last = b.time;
      r.active.push_back({end[b.row], units(takes_.share[p]), b.row});
      r.load += r.active.back().units;
      if (r.load > kWhole) settle(r);
    }
  }
}

// Drops the rows that have ended, and adds the others to the crowd if they still overload the resource.
void Crowd::settle(Resource& r) {
  size_t active_count = 0;
  for (const Active& a : r.active) {
    if (a.end > r.last) r.active[active_count++] = a; else r.load -= a.units;
  }
  r.active.resize(active_count);
  if (r.load > kWhole) std::for_each(r.active.begin(), r.active.end(), [&](const Active& a) { add(a.row); });
}

void Crowd::mark(uint8_t* contended) const {
  for (size_t i = 0; i < among_.size(); ++i) contended[i] |= among_[i];
}

void Crowd::sort() {
  int64_t last = 0;
  for (const Begin& b : begins_) last = std::max(last, b.time);
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

void Crowd::add(int64_t row) {
  count_ += !among_[row];
  among_[row] = 1;
}

}  // namespace cs
