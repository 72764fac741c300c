// Rows of two tables by one index on a stream: one launch, a thread a pack of numbers.
#include "../common/operands.h"
#include "packs.cuh"

namespace {

using cs::at;
using cs::kThreads;
using cs::Launch;
using cs::Pack;
using cs::Tables;

constexpr int kEach = 4;  // packs of a thread

template <class T, class I, int V>
__global__ void __launch_bounds__(kThreads) tables_kernel(Tables<T, I> t) {
  const int64_t packs = t.width / V, first = static_cast<int64_t>(blockIdx.x) * (kThreads * kEach) + threadIdx.x;
  const int64_t rows = kThreads / packs, columns = kThreads % packs;
  int64_t i = first / packs, pack = first % packs;
  for (int k = 0; k < kEach && i < t.count; ++k) {
    const int64_t id = t.index[i];
    Pack<T, V> read;
    if (id >= 0 && id < t.cached_rows) {
      read = at<T, V>(t.cached + id * t.width + pack * V);
    } else if (id >= t.cached_rows && id < t.cached_rows + t.sent_rows) {
      read = at<T, V>(t.sent + (id - t.cached_rows) * t.width + pack * V);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) read.v[j] = T(NAN);
    }
    at<T, V>(t.out + i * t.width + pack * V) = read;
    i += rows, pack += columns;
    if (pack >= packs) pack -= packs, ++i;
  }
}

template <class T, class I, int V>
int launch(const Tables<T, I>& t, const Launch& how) {
  const int64_t blocks = (t.count * (t.width / V) + kThreads * kEach - 1) / (kThreads * kEach);
  if (blocks > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  tables_kernel<T, I, V><<<static_cast<unsigned>(blocks), kThreads, 0, how.on()>>>(t);
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

#define CS_RUN(T, I)                                                                                                          \
  run(Tables<T, I>{count, static_cast<const I*>(index), cached_rows, cached, sent_rows, sent, width, out},                    \
      Launch{entries, counters, partial, cuts, cut_count, device, stream})
#define CS_DEFINE(kind, T) \
  int cs_cuda_gather_##kind(CS_TABLES(T), CS_CUDA_LAUNCH) { return wide ? CS_RUN(T, int64_t) : CS_RUN(T, int32_t); }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
#undef CS_RUN
