// Softmax over rows, blocks of rows shared out. A hub stays whole: its entries are cheap beside their sum, which is cut.
#include <algorithm>

#include "../common/chronoscale.h"
#include "edges.h"
#include "isa.h"
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
int run(int64_t rows, const cs::Softmax<T>& s) {
  if (rows < 0) return CS_ERROR_ARGUMENT;
  if (rows == 0) return CS_OK;
  if (!s.indptr || !s.right || !s.maximum || !s.denominator || (!s.running && !s.base)) return CS_ERROR_ARGUMENT;
  if (s.indptr[rows] > 0 && (!s.indices || !s.left || !s.weights)) return CS_ERROR_ARGUMENT;
  share(rows, s.indptr[rows], [&](int64_t begin, int64_t end) { CS_CALL(softmax, s, begin, end); });
  return CS_OK;
}

template <class T>
int run(int64_t rows, const cs::SoftmaxGrad<T>& s) {
  if (rows < 0 || s.width < 0) return CS_ERROR_ARGUMENT;
  if (rows == 0) return CS_OK;
  if (!s.indptr || !s.right || !s.into_denominator || !s.row || (s.width > 0 && !s.into_total)) return CS_ERROR_ARGUMENT;
  if (s.indptr[rows] > 0 && (!s.indices || !s.left || !s.weights || !s.edges || (s.width > 0 && !s.z))) return CS_ERROR_ARGUMENT;
  share(rows, s.indptr[rows] * std::max<int64_t>(1, s.width / 16), [&](int64_t begin, int64_t end) { CS_CALL(softmax_grad, s, begin, end); });
  return CS_OK;
}

}  // namespace

int cs_softmax_f32(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices, const int8_t* sign,
                   const float* base, int running, const float* left, const float* right, double slope, float* weights,
                   float* maximum, float* denominator, uint8_t* held) {
  return run(rows, cs::Softmax<float>{targets, indptr, indices, sign, base, running != 0, left, right, static_cast<float>(slope), weights, maximum, denominator, held});
}

int cs_softmax_f64(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices, const int8_t* sign,
                   const double* base, int running, const double* left, const double* right, double slope, double* weights,
                   double* maximum, double* denominator, uint8_t* held) {
  return run(rows, cs::Softmax<double>{targets, indptr, indices, sign, base, running != 0, left, right, static_cast<double>(slope), weights, maximum, denominator, held});
}

int cs_softmax_grad_f32(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices, const float* left,
                        const float* right, double slope, const float* weights, const float* z, int64_t width,
                        const float* into_total, const float* into_denominator, float* edges, float* row) {
  return run(rows, cs::SoftmaxGrad<float>{targets, indptr, indices, left, right, static_cast<float>(slope), weights, z, width, into_total, into_denominator,
                               edges, row});
}

int cs_softmax_grad_f64(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices, const double* left,
                        const double* right, double slope, const double* weights, const double* z, int64_t width,
                        const double* into_total, const double* into_denominator, double* edges, double* row) {
  return run(rows, cs::SoftmaxGrad<double>{targets, indptr, indices, left, right, static_cast<double>(slope), weights, z, width, into_total, into_denominator,
                               edges, row});
}
