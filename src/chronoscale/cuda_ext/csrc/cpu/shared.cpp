// Softmax over rows' entries (cs_edge_softmax), and rows gathered from two tables (cs_gather): blocks of rows are tasks. No row is cut, so
// that any number of threads gives the same bits.
#include <algorithm>
#include <atomic>

#include "kernels.h"
#include "pool.h"

namespace {

using cs::Shares;
using cs::Tables;

constexpr int64_t kNumbers = 1 << 14;             // of one task, roughly
constexpr int64_t kWorthHelp = int64_t{1} << 16;  // numbers

int limit(int64_t numbers) { return numbers < kWorthHelp ? 1 : cs::threads(); }

// Whether the rows' pointers ascend within the entries.
template <class T>
bool ascend(const Shares<T>& s, int64_t begin, int64_t end) {
  bool falls = s.indptr[begin] < 0 || s.indptr[end] > s.entries;
  for (int64_t row = begin; row < end; ++row) falls |= s.indptr[row] > s.indptr[row + 1];
  return !falls;
}

template <class T>
int run(const Shares<T>& s) {
  if (s.rows < 0 || s.entries < 0 || s.heads < 0 || !s.indptr) return CS_ERROR_ARGUMENT;
  if (s.indptr[0] != 0 || s.indptr[s.rows] != s.entries) return CS_ERROR_ARGUMENT;
  const bool nothing = s.entries == 0 || s.heads == 0;
  if (!nothing && (!s.input || !s.out)) return CS_ERROR_ARGUMENT;
  const int64_t items = s.rows + s.entries, numbers = items * std::max<int64_t>(s.heads, 1);
  const int64_t blocks = std::max<int64_t>(1, std::min(s.rows, numbers / kNumbers));
  std::atomic<bool> wrong{false};
  auto body = [&](int64_t block, int) {
    const auto cut = [&](int64_t k) { return k == blocks ? s.rows : cs::row_at(s.indptr, s.rows, items * k / blocks); };
    const int64_t begin = cut(block), end = cut(block + 1);
    if (begin > end || !ascend(s, begin, end)) {
      wrong.store(true, std::memory_order_relaxed);
    } else if (!nothing) {
      CS_CALL(shares, s, begin, end);
    }
  };
  cs::parallel(blocks, limit(numbers), body);
  return wrong ? CS_ERROR_ARGUMENT : CS_OK;
}

template <class T, class I>
int run(const Tables<T, I>& t) {
  if (t.count < 0 || t.cached_rows < 0 || t.sent_rows < 0 || t.width < 0) return CS_ERROR_ARGUMENT;
  if (t.count == 0) return CS_OK;
  if (!t.index || (t.width > 0 && (!t.out || (t.cached_rows > 0 && !t.cached) || (t.sent_rows > 0 && !t.sent)))) return CS_ERROR_ARGUMENT;
  const int64_t block = std::max<int64_t>(16, kNumbers / std::max<int64_t>(t.width, 1));
  std::atomic<bool> wrong{false};
  auto body = [&](int64_t k, int) {
    if (!CS_CALL(tables, t, k * block, std::min(t.count, (k + 1) * block))) wrong.store(true, std::memory_order_relaxed);
  };
  cs::parallel((t.count + block - 1) / block, limit(t.count * t.width), body);
  return wrong ? CS_ERROR_ARGUMENT : CS_OK;
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                                       \
  int cs_edge_softmax_##kind(CS_SHARES, const T* scores, T* shares) {                                                            \
    return cs::guarded([&] { return run(Shares<T>{rows, entries, heads, indptr, scores, nullptr, shares}); });                   \
  }                                                                                                                              \
  int cs_edge_softmax_grad_##kind(CS_SHARES, const T* shares, const T* into, T* into_scores) {                                   \
    if (entries > 0 && heads > 0 && !into) return CS_ERROR_ARGUMENT;                                                             \
    return cs::guarded([&] { return run(Shares<T>{rows, entries, heads, indptr, shares, into, into_scores}); });                 \
  }                                                                                                                              \
  int cs_gather_##kind(CS_TABLES(T)) {                                                                                           \
    return cs::guarded([&] {                                                                                                     \
      using Short = const int32_t*;                                                                                              \
      using Long = const int64_t*;                                                                                               \
      return wide ? run(Tables<T, int64_t>{count, static_cast<Long>(index), cached_rows, cached, sent_rows, sent, width, out})   \
                  : run(Tables<T, int32_t>{count, static_cast<Short>(index), cached_rows, cached, sent_rows, sent, width, out}); \
    });                                                                                                                          \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
