// Attention by rows on a stream: a warp for each row. Results repeat: the order of summation is that of the lanes.
#include "../common/operands.h"
#include "launch.h"

namespace {

using cs::kThreads;
using cs::Softmax;
using cs::SoftmaxGrad;

constexpr unsigned kAll = 0xffffffffu;

template <class T>
__device__ T leaky(T score, T slope) { return score > 0 ? score : slope * score; }

// How near a removed score must be to the row's largest to be taken for it.
template <class T>
__device__ T tiny(T base) { return (sizeof(T) == 4 ? T(1e-6) : T(1e-14)) * (1 + (base < 0 ? -base : base)); }

template <class T>
__device__ T sum(T v) {
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(kAll, v, step);
  return v;
}

template <class T>
__global__ void __launch_bounds__(kThreads) softmax_kernel(Softmax<T> s) {
  const int64_t r = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (r >= s.rows) return;  // the whole warp
  const int64_t first = s.indptr[r] + lane, last = s.indptr[r + 1];
  const T right = s.right[s.targets ? s.targets[r] : r], base = s.base ? s.base[r] : -T(INFINITY);
  T top = base;
  bool held = false;
  for (int64_t e = first; e < last; e += 32) {
    const T score = leaky(s.left[s.indices[e]] + right, s.slope);
    s.weights[e] = score;
    const bool added = !s.sign || s.sign[e] > 0;
    if (added && score > top) top = score;
    held |= !added && score >= base - tiny(base);
  }
  for (int step = 16; step > 0; step /= 2) {
    const T other = __shfl_xor_sync(kAll, top, step);
    top = other > top ? other : top;
  }
  held = __any_sync(kAll, held);
  if (!s.running) top = base;
  if (top == -T(INFINITY)) top = 0;
  T total = 0;
  for (int64_t e = first; e < last; e += 32) {
    const T power = exp(s.weights[e] - top), weight = s.sign && s.sign[e] < 0 ? -power : power;
    s.weights[e] = weight;
    total += weight;
  }
  total = sum(total);
  if (lane) return;
  s.maximum[r] = top;
  s.denominator[r] = total;
  if (s.held) s.held[r] = held;
}

template <class T>
__global__ void __launch_bounds__(kThreads) softmax_grad_kernel(SoftmaxGrad<T> s) {
  const int64_t r = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (r >= s.rows) return;
  const T right = s.right[s.targets ? s.targets[r] : r];
  const T* const into = s.into_total + r * s.width;
  T row = 0;
  for (int64_t e = s.indptr[r]; e < s.indptr[r + 1]; ++e) {
    const int64_t source = s.indices[e];
    T dot = 0;
    for (int64_t f = lane; f < s.width; f += 32) dot += into[f] * s.z[source * s.width + f];
    dot = sum(dot);
    const T slope = s.left[source] + right > 0 ? T(1) : s.slope;
    const T edge = s.weights[e] * slope * (dot + s.into_denominator[r]);
    if (lane == 0) s.edges[e] = edge;
    row += edge;
  }
  if (lane == 0) s.row[r] = row;
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                                         \
  int cs_cuda_softmax_##kind(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices,                  \
                             const int8_t* sign, const T* base, int running, const T* left, const T* right, double slope,          \
                             T* weights, T* maximum, T* denominator, uint8_t* held, int device, void* stream) {                    \
    if (!running && !base) return CS_ERROR_ARGUMENT;                                                                               \
    return cs::warps(Softmax<T>{{rows, targets, indptr, indices, left, right, static_cast<T>(slope)},                              \
                                sign, base, running != 0, weights, maximum, denominator, held},                                    \
                     indptr && right, softmax_kernel<T>, device, stream);                                                          \
  }                                                                                                                                \
  int cs_cuda_softmax_grad_##kind(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices,             \
                                  const T* left, const T* right, double slope, const T* weights, const T* z, int64_t width,        \
                                  const T* into_total, const T* into_denominator, T* edges, T* row, int device, void* stream) {    \
    return cs::warps(SoftmaxGrad<T>{{rows, targets, indptr, indices, left, right, static_cast<T>(slope)},                          \
                                    weights, z, width, into_total, into_denominator, edges, row},                                  \
                     indptr && right, softmax_grad_kernel<T>, device, stream);                                                     \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
