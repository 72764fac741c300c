// Sparse times dense, and its in-place increment, on a CUDA stream (cs_cuda_aggregate, cs_cuda_increment). A row belongs to groups of 1 to
// 32 lanes, as many as its columns fill, which read ids together and pass them round; long rows are cut (pieces.cuh). The order of
// summation depends only on the graph and the width: results repeat bit for bit.
#include <algorithm>

#include "../common/operands.h"
#include "packs.cuh"
#include "pieces.cuh"

namespace {

using cs::at;
using cs::kThreads;
using cs::Launch;
using cs::of_groups;
using cs::Pack;

constexpr int kAhead = 4;  // rows of x that a group has on their way at once

// cs::Rows, and what its kernel shares.
template <class T, class S>
struct Gather : cs::Rows<T, S> {
  const uint8_t* only;
  int64_t entries;
  int32_t* counters;
  T* partial;  // [2 * pieces, width]
  const int32_t* cuts;
};

__device__ float wide(float x) { return x; }
__device__ double wide(double x) { return x; }
__device__ float wide(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Sums, for columns [column, column + V), the `lanes` entries from begin on, those from begin + stride on, ... below end. The lanes of a
// group call it together. A column beyond the width reads the first ones, for nothing.
template <class T, class S, int V>
__device__ Pack<T, V> sum(const Gather<T, S>& g, int64_t begin, int64_t end, int64_t stride, int lanes, int64_t column) {
  const unsigned mask = cs::peers(lanes);
  const int lane = threadIdx.x % lanes;
  const S* const x = g.x + (column < g.width ? column : 0);
  const bool weighted = g.weights || g.values;
  Pack<T, V> acc{};
  for (int64_t first = begin; first < end; first += stride) {
    const int count = static_cast<int>(end - first < lanes ? end - first : lanes);
    int32_t own = 0;
    T weight = 1;
    if (lane < count) {
      const int64_t e = first + lane;
      own = g.indices[e];
      if (g.weights) weight = g.weights[e]; else if (g.values) weight = static_cast<T>(g.values[e]);
    }
    for (int k = 0; k < count; k += kAhead) {
      Pack<S, V> rows[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int64_t id = __shfl_sync(mask, own, k + j, lanes);
        if (k + j < count) rows[j] = at<S, V>(x + id * g.width);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const T w = weighted ? __shfl_sync(mask, weight, k + j, lanes) : T(1);
        if (k + j >= count) continue;
#pragma unroll
        for (int i = 0; i < V; ++i) acc.v[i] += w * wide(rows[j].v[i]);
      }
    }
  }
  return acc;
}

template <class T, class S, int V>
__device__ void finish(const Gather<T, S>& g, int64_t row, int64_t column, Pack<T, V> acc) {
  if (g.targets) {
    auto& sum = at<T, V>(g.sums + g.targets[row] * g.width + column);
    if (!(g.fresh && g.fresh[row])) acc.add(sum);
    sum = acc;
  }
  at<T, V>(g.out + row * g.width + column) = acc;
}

template <class T, class S, int V>
__device__ void long_row(const Gather<T, S>& g, const cs::Part& part, int lanes) {
  const int groups = kThreads / lanes, group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  for (int64_t base = 0; base < g.width; base += lanes * V) {
    const int64_t column = base + lane * V;
    const auto acc = of_groups(sum<T, S, V>(g, part.begin + group * lanes, part.end, kThreads, lanes, column), lanes);
    if (group == 0 && column < g.width) at<T, V>(g.partial + part.slot * g.width + column) = acc;
  }
  if (!cs::last_of(part, g.counters)) return;
  for (int64_t base = 0; base < g.width; base += lanes * V) {
    const int64_t column = base + lane * V;
    Pack<T, V> acc{};
    for (int64_t piece = part.first + group; column < g.width && piece <= part.last; piece += groups) {
      acc.add(at<T, V>(g.partial + part.slot_of(piece) * g.width + column));
    }
    acc = of_groups(acc, lanes);
    if (group == 0 && column < g.width) finish(g, part.row, column, acc);
  }
}

// kThreads / lanes rows a block, V * across columns at a time: a row's lanes are groups of `across`, which share its entries. Both are
// powers of two up to 32. V divides the width.
template <class T, class S, int V>
__global__ void __launch_bounds__(kThreads) gather_kernel(Gather<T, S> g, int lanes, int across, int64_t pieces) {
  if (blockIdx.x < pieces) {
    return cs::long_rows(blockIdx.x, g.cuts, g.rows, g.indptr, g.entries, g.only, [&](const cs::Part& part) { long_row<T, S, V>(g, part, across); });
  }
  const int64_t row = (blockIdx.x - pieces) * (kThreads / lanes) + threadIdx.x / lanes;
  if (row >= g.rows || (g.only && !g.only[row])) return;
  const int64_t begin = g.indptr[row], end = g.indptr[row + 1];
  if (end - begin >= cs::kPiece) return;
  const int group = threadIdx.x % lanes / across;
  for (int64_t base = 0; base < g.width; base += across * V) {
    const int64_t column = base + threadIdx.x % across * V;
    auto acc = sum<T, S, V>(g, begin + group * across, end, lanes, across, column);
    for (int step = lanes / 2; step >= across; step /= 2) {
#pragma unroll
      for (int i = 0; i < V; ++i) acc.v[i] += __shfl_xor_sync(cs::peers(lanes), acc.v[i], step, lanes);
    }
    if (group == 0 && column < g.width) finish(g, row, column, acc);
  }
}

template <class T, class S, int V>
cudaError_t launch(const Gather<T, S>& g, const Launch& how) {
  const int across = cs::lanes_for((g.width + V - 1) / V), lanes = std::max(across, cs::lanes_for(g.entries, g.rows));
  const int64_t pieces = cs::pieces_of(how);
  gather_kernel<T, S, V><<<cs::blocks_for(g.rows, lanes, pieces), kThreads, 0, how.on()>>>(g, lanes, across, pieces);
  return cudaGetLastError();
}

template <class T, class S>
int run(Gather<T, S> g, const Launch& how) {
  if (g.rows < 0 || g.width < 0 || g.entries < 0 || g.rows > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (g.rows == 0 || g.width == 0) return CS_OK;
  if (!g.indptr || !g.out || (g.targets && !g.sums) || (g.entries > 0 && (!g.indices || !g.x))) return CS_ERROR_ARGUMENT;
  if (g.counters && !g.partial && cs::pieces_of(g.entries) > 0) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(how.device); error != cudaSuccess) return cs::report(error);
  constexpr int kWide = 16 / sizeof(S);
  const auto misplaced = [](const void* pointer, unsigned size) { return reinterpret_cast<uintptr_t>(pointer) % size != 0; };
  constexpr unsigned kStored = kWide * sizeof(S), kSummed = kWide * sizeof(T);
  const bool narrow = g.width % kWide || misplaced(g.x, kStored) || misplaced(g.out, kSummed) || misplaced(g.sums, kSummed) ||
                      misplaced(g.partial, kSummed);
  return cs::report(narrow ? launch<T, S, 1>(g, how) : launch<T, S, kWide>(g, how));
}

}  // namespace

#define CS_DEFINE(kind, T, S)                                                                                                             \
  int cs_cuda_aggregate_##kind(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values, const S* x,              \
                               int64_t width, T* out, const uint8_t* only, CS_CUDA_LAUNCH) {                                              \
    return run<T, S>({{rows, indptr, indices, values, nullptr, x, width, out, nullptr, nullptr, nullptr}, only,                           \
                      entries, counters, static_cast<T*>(partial), cuts}, {entries, counters, partial, cuts, cut_count, device, stream}); \
  }                                                                                                                                       \
  int cs_cuda_increment_##kind(int64_t rows, const int32_t* targets, const uint8_t* fresh, const int64_t* indptr,                         \
                               const int32_t* indices, const float* values, const S* x, int64_t width, T* sums, T* touched,               \
                               CS_CUDA_LAUNCH) {                                                                                          \
    if (rows > 0 && !targets) return CS_ERROR_ARGUMENT;                                                                                   \
    return run<T, S>({{rows, indptr, indices, values, nullptr, x, width, touched, targets, fresh, sums}, nullptr,                         \
                      entries, counters, static_cast<T*>(partial), cuts}, {entries, counters, partial, cuts, cut_count, device, stream}); \
  }
CS_DEFINE(f32, float, float)
CS_DEFINE(f64, double, double)
CS_DEFINE(bf16, float, uint16_t)
#undef CS_DEFINE

int cs_cuda_weigh_f64(int64_t rows, const int64_t* indptr, const int32_t* indices, const double* weights, const double* x,
                      int64_t width, double* out, const uint8_t* only, CS_CUDA_LAUNCH) {
  return run<double, double>({{rows, indptr, indices, nullptr, weights, x, width, out, nullptr, nullptr, nullptr}, only,
                              entries, counters, static_cast<double*>(partial), cuts}, {entries, counters, partial, cuts, cut_count, device, stream});
}
