// Rows gathered from two tables by one index on a CUDA stream (cs_cuda_gather): one launch, a thread a pack of numbers.
#include "../common/operands.h"
#include "packs.cuh"

namespace {

using cs::at;
using cs::kThreads;
using cs::Launch;
using cs::Pack;
using cs::Tables;

constexpr int kEach = 4;  // packs of a thread, all on their way at once

// N: integer type that counts all packs.
template <class T, class I, class N, int V>
__global__ void __launch_bounds__(kThreads) tables_kernel(Tables<T, I> t, N packs, N total) {
  const I* const __restrict__ index = t.index;
  const T *const __restrict__ cached = t.cached, *const __restrict__ sent = t.sent;
  T* const __restrict__ out = t.out;
  const N first = static_cast<N>(blockIdx.x) * (kThreads * kEach) + threadIdx.x;
  const T* from[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const N number = first + k * kThreads, row = number / packs;
    const int64_t id = number < total ? static_cast<int64_t>(index[row]) : -1, other = id - t.cached_rows;
    from[k] = id < 0 ? nullptr : other < 0 ? cached + id * t.width : other < t.sent_rows ? sent + other * t.width : nullptr;
    if (from[k]) from[k] += (number - row * packs) * V;
  }
  Pack<T, V> read[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (from[k]) {
      read[k] = at<T, V>(from[k]);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) read[k].v[j] = T(NAN);
    }
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const N number = first + k * kThreads;
    if (number < total) at<T, V>(out + static_cast<int64_t>(number) * V) = read[k];
  }
}

template <class T, class I, int V>
int launch(const Tables<T, I>& t, const Launch& how) {
  const int64_t packs = t.width / V, total = t.count * packs, blocks = (total + kThreads * kEach - 1) / (kThreads * kEach);
  if (blocks > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (blocks * kThreads * kEach <= INT64_C(0xffffffff)) {
    tables_kernel<T, I, uint32_t, V><<<static_cast<unsigned>(blocks), kThreads, 0, how.on()>>>(t, static_cast<uint32_t>(packs), static_cast<uint32_t>(total));
  } else {
    tables_kernel<T, I, int64_t, V><<<static_cast<unsigned>(blocks), kThreads, 0, how.on()>>>(t, packs, total);
  }
  return cs::report(cudaGetLastError());
}

template <class T, class I>
int run(const Tables<T, I>& t, const Launch& how) {
  if (t.count < 0 || t.cached_rows < 0 || t.sent_rows < 0 || t.width < 0) return CS_ERROR_ARGUMENT;
  if (t.count == 0 || t.width == 0) return CS_OK;
  if (!t.index || !t.out || (t.cached_rows > 0 && !t.cached) || (t.sent_rows > 0 && !t.sent)) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(how.device); error != cudaSuccess) return cs::report(error);
  constexpr int kWide = 16 / sizeof(T);
  const bool wide = cs::fits<kWide>(t.cached, t.width) && cs::fits<kWide>(t.sent, t.width) && cs::fits<kWide>(t.out, t.width);
  return wide ? launch<T, I, kWide>(t, how) : launch<T, I, 1>(t, how);
}

}  // namespace

#define CS_RUN(T, I)                                                                                       \
  run(Tables<T, I>{count, static_cast<const I*>(index), cached_rows, cached, sent_rows, sent, width, out}, \
      Launch{entries, counters, partial, cuts, cut_count, device, stream})
#define CS_DEFINE(kind, T) \
  int cs_cuda_gather_##kind(CS_TABLES(T), CS_CUDA_LAUNCH) { return wide ? CS_RUN(T, int64_t) : CS_RUN(T, int32_t); }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
#undef CS_RUN
