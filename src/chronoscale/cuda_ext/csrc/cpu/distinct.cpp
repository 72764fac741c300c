// Unique ids, ascending, and the place of each id among them (cs_distinct): FAST's compressed triples (section 5).
//
// Ids that lie close together are marked in a bitmap, where an id's place is the number of marks before it. Others are sorted, digit by
// digit. Neither depends on the order in which threads come, so that the result does not.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels.h"
#include "pool.h"

namespace {

constexpr int64_t kTask = 1 << 14;       // ids of a task; words of a bitmap: a quarter
constexpr int64_t kWorthHelp = 1 << 19;  // ids
constexpr int64_t kSparse = 64;          // bits of a bitmap for each id: beyond that sorting is faster
constexpr int kDigit = 11;               // bits that are sorted by at a time
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

struct Result {
  int32_t* unique;
  int64_t* place;
  int64_t* count;
};

// Calls f(part, begin, end) for parts of `each` of `count`.
template <class F>
void parts(int64_t count, int64_t each, int threads, F f) {
  auto body = [&](int64_t at, int) { f(at, at * each, std::min(count, (at + 1) * each)); };
  cs::parallel((count + each - 1) / each, threads, body);
}

// Replaces each number by the sum of those before it; returns the sum of all.
int64_t summed(std::vector<int64_t>& numbers) {
  int64_t sum = 0;
  for (int64_t& number : numbers) sum += std::exchange(number, sum);
  return sum;
}

struct Marks {
  const int32_t* ids;
  int64_t least;    // a multiple of 64
  uint64_t* bits;   // of ids from `least` on
  uint32_t* below;  // marks before each word
};

[[gnu::always_inline]] inline int64_t marked_of(const Marks& m, int64_t begin, int64_t end) {
  int64_t count = 0;
  for (int64_t word = begin; word < end; ++word) count += __builtin_popcountll(m.bits[word]);
  return count;
}

[[gnu::always_inline]] inline void places_of(const Marks& m, int64_t begin, int64_t end, int64_t* place) {
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t at = static_cast<uint64_t>(m.ids[i] - m.least);
    place[i] = m.below[at >> 6] + __builtin_popcountll(m.bits[at >> 6] & ((uint64_t{1} << (at & 63)) - 1));
  }
}

// Once with the instruction that counts bits, which every machine with AVX2 has, and once without.
#ifdef CS_X86_KERNELS
[[gnu::target("popcnt")]] int64_t marked_fast(const Marks& m, int64_t begin, int64_t end) { return marked_of(m, begin, end); }
[[gnu::target("popcnt")]] void places_fast(const Marks& m, int64_t begin, int64_t end, int64_t* place) { places_of(m, begin, end, place); }
bool fast() { return cs::isa != cs::Isa::baseline; }
#else
constexpr bool fast() { return false; }
int64_t marked_fast(const Marks& m, int64_t begin, int64_t end) { return marked_of(m, begin, end); }
void places_fast(const Marks& m, int64_t begin, int64_t end, int64_t* place) { places_of(m, begin, end, place); }
#endif

// Several threads may mark one word; a mark that is there already costs a look.
void mark(const Marks& m, int64_t begin, int64_t end, bool single_threaded) {
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t at = static_cast<uint64_t>(m.ids[i] - m.least), bit = uint64_t{1} << (at & 63);
    uint64_t* const word = m.bits + (at >> 6);
    if (single_threaded) {
      *word |= bit;
    } else if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit)) {
      __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    }
  }
}

void by_marks(const int32_t* ids, int64_t count, int64_t least, int64_t most, int threads, const Result& result) {
  constexpr int64_t kWords = kTask / 4;
  const int64_t from = least & ~int64_t{63}, words = (most - from) / 64 + 1;
  std::vector<uint64_t> bits(static_cast<size_t>(words));
  const std::unique_ptr<uint32_t[]> below(new uint32_t[static_cast<size_t>(words)]);
  const Marks m{ids, from, bits.data(), below.get()};
  parts(count, kTask, threads, [&](int64_t, int64_t begin, int64_t end) { mark(m, begin, end, threads == 1); });
  std::vector<int64_t> before(static_cast<size_t>((words + kWords - 1) / kWords));
  parts(words, kWords, threads, [&](int64_t part, int64_t begin, int64_t end) {
    before[part] = fast() ? marked_fast(m, begin, end) : marked_of(m, begin, end);
  });
  *result.count = summed(before);
  parts(words, kWords, threads, [&](int64_t part, int64_t begin, int64_t end) {
    int64_t next = before[part];
    for (int64_t word = begin; word < end; ++word) {
      m.below[word] = static_cast<uint32_t>(next);
      for (uint64_t left = m.bits[word]; left; left &= left - 1) {
        result.unique[next++] = static_cast<int32_t>(from + 64 * word + __builtin_ctzll(left));
      }
    }
  });
  parts(count, kTask, threads, [&](int64_t, int64_t begin, int64_t end) {
    fast() ? places_fast(m, begin, end, result.place) : places_of(m, begin, end, result.place);
  });
}

// Stable, so that threads, each with its own part of the keys, give one order.
void sort_by_digit(const uint64_t* keys, int64_t count, int shift, int bits, int threads, uint64_t* into) {
  const int64_t digits = int64_t{1} << bits, tasks = (count + kTask - 1) / kTask;
  std::vector<int64_t> next(static_cast<size_t>(digits * tasks));  // [digit, task]: where a task's next key of that digit goes
  const auto digit = [&](uint64_t key) { return static_cast<int64_t>(key >> shift) & (digits - 1); };
  parts(count, kTask, threads, [&](int64_t task, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++next[digit(keys[i]) * tasks + task];
  });
  summed(next);
  parts(count, kTask, threads, [&](int64_t task, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) into[next[digit(keys[i]) * tasks + task]++] = keys[i];
  });
}

void by_sort(const int32_t* ids, int64_t count, int64_t least, int64_t most, int threads, const Result& result) {
  const std::unique_ptr<uint64_t[]> first(new uint64_t[static_cast<size_t>(count)]), second(new uint64_t[static_cast<size_t>(count)]);
  uint64_t *keys = first.get(), *spare = second.get();  // an id less the least, and its position
  parts(count, kTask, threads, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) keys[i] = static_cast<uint64_t>(ids[i] - least) << 32 | static_cast<uint64_t>(i);
  });
  const int bits = 64 - __builtin_clzll(static_cast<uint64_t>(most - least) | 1), passes = (bits + kDigit - 1) / kDigit;
  const int each = (bits + passes - 1) / passes;
  for (int pass = 0; pass < passes; ++pass) {
    sort_by_digit(keys, count, 32 + pass * each, each, threads, spare);
    std::swap(keys, spare);
  }
  const auto begins = [&](int64_t i) { return i == 0 || keys[i] >> 32 != keys[i - 1] >> 32; };
  std::vector<int64_t> before(static_cast<size_t>((count + kTask - 1) / kTask));
  parts(count, kTask, threads, [&](int64_t part, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) before[part] += begins(i);
  });
  *result.count = summed(before);
  parts(count, kTask, threads, [&](int64_t part, int64_t begin, int64_t end) {
    int64_t next = before[part];
    for (int64_t i = begin; i < end; ++i) {
      if (begins(i)) result.unique[next++] = static_cast<int32_t>(least + static_cast<int64_t>(keys[i] >> 32));
      result.place[keys[i] & 0xffffffff] = next - 1;
    }
  });
}

int distinct(const int32_t* ids, int64_t count, int threads, const Result& result) {
  *result.count = 0;
  if (count == 0) return CS_OK;
  std::vector<std::pair<int32_t, int32_t>> ranges(static_cast<size_t>((count + kTask - 1) / kTask));
  parts(count, kTask, threads, [&](int64_t part, int64_t begin, int64_t end) {
    int32_t least = ids[begin], most = ids[begin];
    for (int64_t i = begin; i < end; ++i) least = std::min(least, ids[i]), most = std::max(most, ids[i]);
    ranges[part] = {least, most};
  });
  int64_t least = kMost, most = 0;
  for (const auto& [low, high] : ranges) least = std::min<int64_t>(least, low), most = std::max<int64_t>(most, high);
  if (least < 0) return CS_ERROR_ARGUMENT;
  const auto of = most - least < kSparse * count ? by_marks : by_sort;
  of(ids, count, least, most, threads, result);
  return CS_OK;
}

// Computes the row pointers of filled slots, one row after another. Returns false for a count that no row can have.
bool row_pointers(int64_t rows, int64_t width, const int32_t* counts, int64_t* indptr) {
  indptr[0] = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (counts[row] < 0 || counts[row] > width) return false;
    indptr[row + 1] = indptr[row] + counts[row];
  }
  return true;
}

}  // namespace

int cs_distinct(int64_t rows, int64_t width, const int32_t* ids, const int32_t* counts, int threads, int32_t* out_unique, int64_t* out_place,
                int64_t* out_indptr, int64_t* out_count) {
  if (rows < 0 || width < 0 || threads < 0 || (width > 0 && rows > kMost / width) || !out_count) return CS_ERROR_ARGUMENT;
  if (counts && !out_indptr) return CS_ERROR_ARGUMENT;
  if (rows * width > 0 && (!ids || !out_unique || !out_place)) return CS_ERROR_ARGUMENT;
  if (counts && !row_pointers(rows, width, counts, out_indptr)) return CS_ERROR_ARGUMENT;
  return cs::guarded([&] {
    const Result result{out_unique, out_place, out_count};
    const int64_t count = counts ? out_indptr[rows] : rows * width;
    const int helped = count < kWorthHelp ? 1 : threads ? threads : cs::threads();
    if (!counts) return distinct(ids, count, helped, result);
    const std::unique_ptr<int32_t[]> filled(new int32_t[static_cast<size_t>(count)]);
    parts(rows, std::max<int64_t>(1, kTask / std::max<int64_t>(width, 1)), helped, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) std::copy_n(ids + row * width, counts[row], filled.get() + out_indptr[row]);
    });
    return distinct(filled.get(), count, helped, result);
  });
}
