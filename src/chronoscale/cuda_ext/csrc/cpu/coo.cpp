// Sums over edges in any order (COO): targets are checked, sorted into rows unless they ascend, and the rows summed by merge path
// (aggregate.cpp). O(edges * width). An edge is as much work as any other, whatever its target's degree, and a row is summed in the order
// of its edges, cut where the sizes say: the same bits on any number of threads.
#include <algorithm>
#include <atomic>
#include <memory>

#include "kernels.h"
#include "pool.h"

namespace {

constexpr int64_t kChunk = 1 << 14;               // edges of one task
constexpr int64_t kWorthHelp = int64_t{1} << 17;  // edges: checking one takes a fraction of a nanosecond
constexpr int64_t kMost = int64_t{1} << 31;       // edges: their numbers are int32

// Calls body(begin, end) for chunks of edges.
template <class F>
void chunks(int64_t edges, F f) {
  auto body = [&](int64_t k, int) { f(k * kChunk, std::min(edges, (k + 1) * kChunk)); };
  cs::parallel((edges + kChunk - 1) / kChunk, edges < kWorthHelp ? 1 : cs::threads(), body);
}

struct IdChecks {
  bool inside, ascending;
};

template <class I>
IdChecks check_ids(const I* ids, int64_t edges, int64_t below) {
  std::atomic<bool> outside{false}, falls{false};
  chunks(edges, [&](int64_t begin, int64_t end) {
    I low = ids[begin], high = low, fall = begin > 0 && low < ids[begin - 1];
    for (int64_t e = begin + 1; e < end; ++e) {
      low = std::min(low, ids[e]), high = std::max(high, ids[e]);
      fall |= ids[e] < ids[e - 1];
    }
    if (low < 0 || high >= below) outside.store(true, std::memory_order_relaxed);
    if (fall) falls.store(true, std::memory_order_relaxed);
  });
  return {!outside, !falls};
}

// Computes the row pointers of ascending targets.
template <class I>
void point(const I* target, int64_t edges, int64_t rows, int64_t* indptr) {
  chunks(edges, [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e) {
      for (int64_t row = e > 0 ? target[e - 1] + 1 : 0; row <= target[e]; ++row) indptr[row] = e;
    }
  });
  for (int64_t row = edges > 0 ? target[edges - 1] + 1 : 0; row <= rows; ++row) indptr[row] = edges;
}

// Computes row pointers, and the row of x that each entry reads: a stable counting sort.
template <class I>
void sort(const I* target, const I* source, int64_t edges, int64_t rows, int64_t* indptr, int32_t* indices) {
  std::unique_ptr<int32_t[]> next(new int32_t[rows]());
  for (int64_t e = 0; e < edges; ++e) ++next[target[e]];
  int32_t begin = 0;
  for (int64_t row = 0; row < rows; ++row) {
    indptr[row] = begin;
    const int32_t count = next[row];
    next[row] = begin;
    begin += count;
  }
  indptr[rows] = edges;
  for (int64_t e = 0; e < edges; ++e) indices[next[target[e]]++] = static_cast<int32_t>(source ? source[e] : e);
}

template <class T, class I>
int run(int64_t rows, int64_t edges, const I* target, const I* source, int64_t sources, const T* x, int64_t width, T* out) {
  if (rows < 0 || edges < 0 || edges >= kMost || rows >= kMost || sources < 0 || sources > kMost || width < 0) return CS_ERROR_ARGUMENT;
  if (edges > 0 && !target) return CS_ERROR_ARGUMENT;
  const IdChecks targets = edges > 0 ? check_ids(target, edges, rows) : IdChecks{true, true};
  if (!targets.inside || (source && edges > 0 && !check_ids(source, edges, sources).inside)) return CS_ERROR_ARGUMENT;
  if (rows == 0 || width == 0) return CS_OK;
  if (!out || (edges > 0 && !x)) return CS_ERROR_ARGUMENT;
  std::unique_ptr<int64_t[]> indptr(new int64_t[rows + 1]);
  std::unique_ptr<int32_t[]> storage;
  const int32_t* indices = nullptr;
  if (!targets.ascending) {
    storage.reset(new int32_t[edges]);
    sort(target, source, edges, rows, indptr.get(), storage.get());
    indices = storage.get();
  } else {
    point(target, edges, rows, indptr.get());
    if constexpr (sizeof(I) == sizeof(int32_t)) {
      indices = source;
    } else if (source) {
      storage.reset(new int32_t[edges]);
      chunks(edges, [&](int64_t begin, int64_t end) { std::copy(source + begin, source + end, storage.get() + begin); });
      indices = storage.get();
    }
  }
  return cs::sum_rows(cs::Rows<T>{rows, indptr.get(), indices, nullptr, nullptr, x, width, out, nullptr, nullptr, nullptr});
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                            \
  int cs_edges_##kind(CS_EDGES(T)) {                                                                                  \
    return cs::guarded([&] {                                                                                          \
      using Short = const int32_t*;                                                                                   \
      using Long = const int64_t*;                                                                                    \
      return wide ? run(rows, edges, static_cast<Long>(target), static_cast<Long>(source), sources, x, width, out)    \
                  : run(rows, edges, static_cast<Short>(target), static_cast<Short>(source), sources, x, width, out); \
    });                                                                                                               \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
