// Softmax of graph attention by rows on a CUDA stream, and its gradient (cs_cuda_softmax): a few lanes for each row, long rows cut
// (pieces.cuh). The order of summation depends only on the graph and the width: results repeat bit for bit.
#include "../common/operands.h"
#include "pieces.cuh"

namespace {

using cs::kThreads;
using cs::Launch;
using cs::Part;

constexpr int kGradLanes = 8;      // at least, for a row's gradient
constexpr int kAhead = 4;          // rows of z that a group has on their way at once; divides kGradLanes

// cs::Softmax, and what its kernels share. partial [2 * pieces, 2].
template <class T>
struct Softmax : cs::Softmax<T> {
  const uint8_t* only;
  int64_t entries;
  int32_t* counters;
  T* partial;
  const int32_t* cuts;
};

// partial [2 * pieces].
template <class T>
struct Grad : cs::SoftmaxGrad<T> {
  const uint8_t* only;
  int64_t entries;
  int32_t* counters;
  T* partial;
  const int32_t* cuts;
};

template <class T>
__device__ T leaky(T score, T slope) { return score > 0 ? score : slope * score; }

// Returns how near a removed score must be to the row's largest to count as its maximum.
template <class T>
__device__ T tiny(T base) { return (sizeof(T) == 4 ? T(1e-6) : T(1e-14)) * (1 + (base < 0 ? -base : base)); }

template <class T>
__device__ T right_of(const cs::Scores<T>& s, int64_t row) { return s.right[s.targets ? s.targets[row] : row]; }

template <class T>
__device__ T base_of(const Softmax<T>& s, int64_t row) { return s.base ? s.base[row] : -T(INFINITY); }

template <class T>
struct Top {
  T score;
  T removed_maximum;  // 0 or 1
};

// Scores of entries begin, begin + stride, ... below end, written to weights; the largest that counts, of base and them.
template <class T>
__device__ Top<T> score(const Softmax<T>& s, int64_t row, int64_t begin, int64_t end, int stride) {
  const T right = right_of(s, row), base = base_of(s, row), near = base - tiny(base);
  Top<T> top{base, 0};
  for (int64_t e = begin; e < end; e += stride) {
    const T value = leaky(s.left[s.indices[e]] + right, s.slope);
    s.weights[e] = value;
    const bool added = !s.sign || s.sign[e] > 0;
    if (added && value > top.score) top.score = value;
    if (!added && value >= near) top.removed_maximum = 1;
  }
  return top;
}

// Returns the row's maximum, and writes it with `removed_maximum`.
template <class T>
__device__ T settle(const Softmax<T>& s, int64_t row, Top<T> top, bool writes) {
  const T highest = s.running ? top.score : base_of(s, row), maximum = highest == -T(INFINITY) ? T(0) : highest;
  if (writes) {
    s.maximum[row] = maximum;
    if (s.removed_maximum) s.removed_maximum[row] = top.removed_maximum > 0;
  }
  return maximum;
}

// Turns scores into weights; returns their sum.
template <class T>
__device__ T weigh(const Softmax<T>& s, T maximum, int64_t begin, int64_t end, int stride) {
  T total = 0;
  for (int64_t e = begin; e < end; e += stride) {
    const T power = exp(s.weights[e] - maximum), weight = s.sign && s.sign[e] < 0 ? -power : power;
    s.weights[e] = weight;
    total += weight;
  }
  return total;
}

// Reduces number `which` of the partial results, `width` numbers each, of all pieces of a long row.
template <class T, class F>
__device__ T of_pieces(const Part& part, const T* partial, int width, int which, T none, F put) {
  T all = none;
  for (int64_t piece = part.first + threadIdx.x; piece <= part.last; piece += kThreads) {
    all = put(all, partial[part.slot_of(piece) * width + which]);
  }
  return cs::together_in_block(all, put);
}

template <class T>
__global__ void __launch_bounds__(kThreads) softmax_kernel(Softmax<T> s, int lanes, int64_t pieces) {
  const cs::Larger<T> larger;
  if (blockIdx.x < pieces) {
    return cs::long_rows(blockIdx.x, s.cuts, s.rows, s.indptr, s.entries, s.only, [&](const Part& part) {
      const Top<T> own = score(s, part.row, part.begin + threadIdx.x, part.end, kThreads);
      const T highest = cs::together_in_block(own.score, larger), removed_maximum = cs::together_in_block(own.removed_maximum, larger);
      if (threadIdx.x == 0) s.partial[2 * part.slot] = highest, s.partial[2 * part.slot + 1] = removed_maximum;
      if (!cs::last_of(part, s.counters)) return;
      Top<T> top{of_pieces(part, s.partial, 2, 0, -T(INFINITY), larger), of_pieces(part, s.partial, 2, 1, T(0), larger)};
      settle(s, part.row, top, threadIdx.x == 0);
    });
  }
  const int64_t row = (blockIdx.x - pieces) * (kThreads / lanes) + threadIdx.x / lanes;
  if (row >= s.rows || (s.only && !s.only[row])) return;
  const int64_t first = s.indptr[row] + threadIdx.x % lanes, last = s.indptr[row + 1];
  if (last - s.indptr[row] >= cs::kPiece) return;
  const bool leads = threadIdx.x % lanes == 0;
  const Top<T> own = score(s, row, first, last, lanes);
  const Top<T> top{cs::together(own.score, lanes, larger), cs::together(own.removed_maximum, lanes, larger)};
  const T total = cs::together(weigh(s, settle(s, row, top, leads), first, last, lanes), lanes, cs::Plus<T>());
  if (leads) s.denominator[row] = total;
}

// Weights and denominators of the long rows, whose maximum is known by now.
template <class T>
__global__ void __launch_bounds__(kThreads) long_softmax_kernel(Softmax<T> s) {
  cs::long_rows(blockIdx.x, s.cuts, s.rows, s.indptr, s.entries, s.only, [&](const Part& part) {
    const cs::Plus<T> plus;
    const T own = weigh(s, s.maximum[part.row], part.begin + threadIdx.x, part.end, kThreads);
    const T sum = cs::together_in_block(own, plus);
    if (threadIdx.x == 0) s.partial[part.slot] = sum;
    if (!cs::last_of(part, s.counters)) return;
    const T total = of_pieces(part, s.partial, 1, 0, T(0), plus);
    if (threadIdx.x == 0) s.denominator[part.row] = total;
  });
}

// Gradients of the `lanes` entries from begin on, those from begin + stride on, ... below end; their sum. Lanes call it together.
template <class T>
__device__ T derive(const Grad<T>& s, int64_t row, int64_t begin, int64_t end, int64_t stride, int lanes) {
  const unsigned mask = cs::peers(lanes);
  const int lane = threadIdx.x % lanes;
  const T right = right_of(s, row), below = s.into_denominator[row];
  const T* const into = s.into_total + row * s.width;
  T total = 0;
  for (int64_t first = begin; first < end; first += stride) {
    const int count = static_cast<int>(end - first < lanes ? end - first : lanes);
    const int32_t own = lane < count ? s.indices[first + lane] : 0;
    T dot = 0;  // this lane's entry's
    for (int k = 0; k < count; k += kAhead) {
      const T* z[kAhead];
      T parts[kAhead] = {};
#pragma unroll
      for (int j = 0; j < kAhead; ++j) z[j] = s.z + __shfl_sync(mask, own, k + j, lanes) * s.width;
      for (int64_t f = lane; f < s.width; f += lanes) {
        const T factor = into[f];
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          if (k + j < count) parts[j] += factor * z[j][f];
        }
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const T part = cs::together(parts[j], lanes, cs::Plus<T>());
        if (lane == k + j) dot = part;
      }
    }
    if (lane < count) {
      const int64_t e = first + lane;
      const T edge = s.weights[e] * (s.left[own] + right > 0 ? T(1) : s.slope) * (dot + below);
      s.edges[e] = edge;
      total += edge;
    }
  }
  return total;
}

template <class T>
__global__ void __launch_bounds__(kThreads) softmax_grad_kernel(Grad<T> s, int lanes, int64_t pieces) {
  const cs::Plus<T> plus;
  const int group = threadIdx.x / lanes;
  if (blockIdx.x < pieces) {
    return cs::long_rows(blockIdx.x, s.cuts, s.rows, s.indptr, s.entries, s.only, [&](const Part& part) {
      const T sum = cs::together_in_block(derive(s, part.row, part.begin + group * lanes, part.end, kThreads, lanes), plus);
      if (threadIdx.x == 0) s.partial[part.slot] = sum;
      if (!cs::last_of(part, s.counters)) return;
      const T total = of_pieces(part, s.partial, 1, 0, T(0), plus);
      if (threadIdx.x == 0) s.row[part.row] = total;
    });
  }
  const int64_t row = (blockIdx.x - pieces) * (kThreads / lanes) + group;
  if (row >= s.rows || (s.only && !s.only[row])) return;
  const int64_t begin = s.indptr[row], end = s.indptr[row + 1];
  if (end - begin >= cs::kPiece) return;
  const T sum = cs::together(derive(s, row, begin, end, lanes, lanes), lanes, plus);
  if (threadIdx.x % lanes == 0) s.row[row] = sum;
}

template <class T>
int run(const Softmax<T>& s, const Launch& how) {
  if (s.rows < 0 || s.entries < 0 || s.rows > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (s.rows == 0) return CS_OK;
  if (!s.indptr || !s.right || !s.maximum || !s.denominator || (!s.running && !s.base)) return CS_ERROR_ARGUMENT;
  if (s.entries > 0 && (!s.indices || !s.left || !s.weights)) return CS_ERROR_ARGUMENT;
  const int64_t pieces = cs::pieces_of(how);
  if (pieces > 0 && !s.partial) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(how.device); error != cudaSuccess) return cs::report(error);
  const int lanes = cs::lanes_for(s.entries, s.rows);
  softmax_kernel<T><<<cs::blocks_for(s.rows, lanes, pieces), kThreads, 0, how.on()>>>(s, lanes, pieces);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess || pieces == 0) return cs::report(error);
  long_softmax_kernel<T><<<static_cast<unsigned>(pieces), kThreads, 0, how.on()>>>(s);
  return cs::report(cudaGetLastError());
}

template <class T>
int run(const Grad<T>& s, const Launch& how) {
  if (s.rows < 0 || s.width < 0 || s.entries < 0 || s.rows > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (s.rows == 0) return CS_OK;
  if (!s.indptr || !s.right || !s.into_denominator || !s.row || (s.width > 0 && !s.into_total)) return CS_ERROR_ARGUMENT;
  if (s.entries > 0 && (!s.indices || !s.left || !s.weights || !s.edges || (s.width > 0 && !s.z))) return CS_ERROR_ARGUMENT;
  const int64_t pieces = cs::pieces_of(how);
  if (pieces > 0 && !s.partial) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(how.device); error != cudaSuccess) return cs::report(error);
  const int lanes = cs::lanes_for(s.width < kGradLanes ? kGradLanes : s.width);
  softmax_grad_kernel<T><<<cs::blocks_for(s.rows, lanes, pieces), kThreads, 0, how.on()>>>(s, lanes, pieces);
  return cs::report(cudaGetLastError());
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                                            \
  int cs_cuda_softmax_##kind(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices,                     \
                             const int8_t* sign, const T* base, int running, const T* left, const T* right, double slope,             \
                             T* weights, T* maximum, T* denominator, uint8_t* removed_maximum, const uint8_t* only, CS_CUDA_LAUNCH) { \
    return run(Softmax<T>{{{rows, targets, indptr, indices, left, right, static_cast<T>(slope)},                                      \
                           sign, base, running != 0, weights, maximum, denominator, removed_maximum},                                 \
                          only, entries, counters, static_cast<T*>(partial), cuts},                                                   \
               {entries, counters, partial, cuts, cut_count, device, stream});                                                        \
  }                                                                                                                                   \
  int cs_cuda_softmax_grad_##kind(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices,                \
                                  const T* left, const T* right, double slope, const T* weights, const T* z, int64_t width,           \
                                  const T* into_total, const T* into_denominator, T* edges, T* row, const uint8_t* only,              \
                                  CS_CUDA_LAUNCH) {                                                                                   \
    return run(Grad<T>{{{rows, targets, indptr, indices, left, right, static_cast<T>(slope)},                                         \
                        weights, z, width, into_total, into_denominator, edges, row},                                                 \
                       only, entries, counters, static_cast<T*>(partial), cuts},                                                      \
               {entries, counters, partial, cuts, cut_count, device, stream});                                                        \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
