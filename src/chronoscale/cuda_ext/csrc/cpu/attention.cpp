// Softmax of graph attention over rows (cs_softmax): blocks of rows are tasks. A hub is one task: its softmax is cheap beside its sum,
// which aggregate.cpp cuts.
#include <algorithm>

#include "kernels.h"
#include "pool.h"

namespace {

constexpr int64_t kBlock = 512;                   // rows of one task
constexpr int64_t kWorthHelp = int64_t{1} << 15;  // entries

template <class F>
void share(int64_t rows, int64_t work, F compute) {
  auto body = [&](int64_t block, int) { compute(block * kBlock, std::min(rows, (block + 1) * kBlock)); };
  cs::parallel((rows + kBlock - 1) / kBlock, work < kWorthHelp ? 1 : cs::threads(), body);
}

template <class T>
int run(const cs::Softmax<T>& s) {
  if (s.rows < 0) return CS_ERROR_ARGUMENT;
  if (s.rows == 0) return CS_OK;
  if (!s.indptr || !s.right || !s.maximum || !s.denominator || (!s.running && !s.base)) return CS_ERROR_ARGUMENT;
  if (s.indptr[s.rows] > 0 && (!s.indices || !s.left || !s.weights)) return CS_ERROR_ARGUMENT;
  share(s.rows, s.indptr[s.rows], [&](int64_t begin, int64_t end) { CS_CALL(softmax, s, begin, end); });
  return CS_OK;
}

template <class T>
int run(const cs::SoftmaxGrad<T>& s) {
  if (s.rows < 0 || s.width < 0) return CS_ERROR_ARGUMENT;
  if (s.rows == 0) return CS_OK;
  if (!s.indptr || !s.right || !s.into_denominator || !s.row || (s.width > 0 && !s.into_total)) return CS_ERROR_ARGUMENT;
  if (s.indptr[s.rows] > 0 && (!s.indices || !s.left || !s.weights || !s.edges || (s.width > 0 && !s.z))) return CS_ERROR_ARGUMENT;
  share(s.rows, s.indptr[s.rows] * std::max<int64_t>(1, s.width / 16), [&](int64_t begin, int64_t end) { CS_CALL(softmax_grad, s, begin, end); });
  return CS_OK;
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                                       \
  int cs_softmax_##kind(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices, const int8_t* sign, \
                        const T* base, int running, const T* left, const T* right, double slope, T* weights, T* maximum,         \
                        T* denominator, uint8_t* removed_maximum) {                                                              \
    const cs::Softmax<T> s{{rows, targets, indptr, indices, left, right, static_cast<T>(slope)},                                 \
                           sign, base, running != 0, weights, maximum, denominator, removed_maximum};                            \
    return cs::guarded([&] { return run(s); });                                                                                  \
  }                                                                                                                              \
  int cs_softmax_grad_##kind(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices, const T* left, \
                             const T* right, double slope, const T* weights, const T* z, int64_t width, const T* into_total,     \
                             const T* into_denominator, T* edges, T* row) {                                                      \
    const cs::SoftmaxGrad<T> s{{rows, targets, indptr, indices, left, right, static_cast<T>(slope)},                             \
                               weights, z, width, into_total, into_denominator, edges, row};                                     \
    return cs::guarded([&] { return run(s); });                                                                                  \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
