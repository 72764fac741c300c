// Sparse times dense, and its in-place increment, on a stream. A row belongs to a group of 1 to 32 lanes, as many as
// its columns fill; a long row is taken up afterwards by its whole block. The order of summation depends on the graph
// and the width alone: results repeat bit for bit.
#include <cuda_runtime.h>

#include <cstdint>

#include "../common/chronoscale.h"
#include "../common/operands.h"
#include "launch.h"

namespace {

using cs::kThreads;
using cs::Rows;

constexpr int kLong = 512;  // edges from which the whole block shares a row

template <class T, int V>
struct alignas(V * sizeof(T)) Pack {
  T v[V];
};

// Sums edges begin, begin + stride, ... below end, for columns [column, column + V).
template <class T, int V>
__device__ Pack<T, V> sum(const Rows<T>& r, int64_t begin, int64_t end, int64_t stride, int64_t column) {
  Pack<T, V> acc{};
#pragma unroll 4
  for (int64_t e = begin; e < end; e += stride) {
    const auto x = *reinterpret_cast<const Pack<T, V>*>(r.x + r.indices[e] * r.width + column);
    const T w = r.weights ? r.weights[e] : r.values ? static_cast<T>(r.values[e]) : T(1);
#pragma unroll
    for (int i = 0; i < V; ++i) acc.v[i] += w * x.v[i];
  }
  return acc;
}

template <class T, int V>
__device__ void finish(const Rows<T>& r, int64_t row, int64_t column, Pack<T, V> acc) {
  if (r.targets) {
    auto* const at = reinterpret_cast<Pack<T, V>*>(r.sums + r.targets[row] * r.width + column);
    if (!(r.fresh && r.fresh[row])) {
      const Pack<T, V> before = *at;
#pragma unroll
      for (int i = 0; i < V; ++i) acc.v[i] += before.v[i];
    }
    *at = acc;
  }
  *reinterpret_cast<Pack<T, V>*>(r.out + row * r.width + column) = acc;
}

// lanes: a power of two up to 32; kThreads / lanes groups a block, one row each. V divides the width.
template <class T, int V>
__global__ void __launch_bounds__(kThreads) rows_kernel(Rows<T> r, int lanes) {
  __shared__ Pack<T, V> partial[kThreads];
  const int groups = kThreads / lanes, group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * groups;

  const int64_t mine = first + group;
  if (mine < r.rows) {
    const int64_t begin = r.indptr[mine], end = r.indptr[mine + 1];
    if (end - begin < kLong) {
      for (int64_t column = lane * V; column < r.width; column += lanes * V) {
        finish<T, V>(r, mine, column, sum<T, V>(r, begin, end, 1, column));
      }
    }
  }
  for (int64_t row = first; row < first + groups && row < r.rows; ++row) {
    const int64_t begin = r.indptr[row], end = r.indptr[row + 1];
    if (end - begin < kLong) continue;  // the same for every thread of the block: the barriers below are met by all
    for (int64_t base = 0; base < r.width; base += lanes * V) {
      const int64_t column = base + lane * V;
      if (column < r.width) partial[threadIdx.x] = sum<T, V>(r, begin + group, end, groups, column);
      __syncthreads();
      if (group == 0 && column < r.width) {
        Pack<T, V> acc = partial[lane];
        for (int other = 1; other < groups; ++other) {
#pragma unroll
          for (int i = 0; i < V; ++i) acc.v[i] += partial[other * lanes + lane].v[i];
        }
        finish<T, V>(r, row, column, acc);
      }
      __syncthreads();
    }
  }
}

int status(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return CS_OK;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch: return CS_ERROR_UNAVAILABLE;
    default: return CS_ERROR_DEVICE;
  }
}

thread_local cudaError_t last = cudaSuccess;

}  // namespace

int cs::report(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();  // clear it: the next call's check is its own
  last = error;
  return status(error);
}

namespace {

using cs::report;

template <class T, int V>
cudaError_t launch(const Rows<T>& r, cudaStream_t stream) {
  int lanes = 1;
  while (lanes < 32 && lanes * V < r.width) lanes *= 2;
  const int64_t groups = kThreads / lanes;
  const int64_t blocks = (r.rows + groups - 1) / groups;
  rows_kernel<T, V><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(r, lanes);
  return cudaGetLastError();
}

template <class T>
int run(const Rows<T>& r, int device, void* stream) {
  if (r.rows < 0 || r.width < 0 || r.rows > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (r.rows == 0 || r.width == 0) return CS_OK;
  if (!r.indptr || !r.out || (r.targets && !r.sums)) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return report(error);
  constexpr int kWide = 16 / sizeof(T);
  const uintptr_t pointers = reinterpret_cast<uintptr_t>(r.x) | reinterpret_cast<uintptr_t>(r.out) |
                             reinterpret_cast<uintptr_t>(r.sums);
  const auto on = static_cast<cudaStream_t>(stream);
  if (r.width % kWide == 0 && pointers % 16 == 0) return report(launch<T, kWide>(r, on));
  return report(launch<T, 1>(r, on));
}

}  // namespace

int cs_cuda_version(void) { return CS_ABI_VERSION; }

int cs_cuda_available(void) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices == 0) return report(cudaErrorNoDevice);
  return report(error);
}

const char* cs_cuda_last_error(void) { return cudaGetErrorString(last); }

#define CS_DEFINE(kind, T)                                                                                                        \
  int cs_cuda_aggregate_##kind(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values, const T* x,      \
                               int64_t width, T* out, int device, void* stream) {                                                 \
    return run<T>({rows, indptr, indices, values, nullptr, x, width, out, nullptr, nullptr, nullptr}, device, stream);            \
  }                                                                                                                               \
  int cs_cuda_increment_##kind(int64_t rows, const int32_t* targets, const uint8_t* fresh, const int64_t* indptr,                 \
                               const int32_t* indices, const float* values, const T* x, int64_t width, T* sums, T* touched,       \
                               int device, void* stream) {                                                                        \
    if (rows > 0 && !targets) return CS_ERROR_ARGUMENT;                                                                           \
    return run<T>({rows, indptr, indices, values, nullptr, x, width, touched, targets, fresh, sums}, device, stream);             \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE

int cs_cuda_weigh_f64(int64_t rows, const int64_t* indptr, const int32_t* indices, const double* weights, const double* x,
                      int64_t width, double* out, int device, void* stream) {
  return run<double>({rows, indptr, indices, nullptr, weights, x, width, out, nullptr, nullptr, nullptr}, device, stream);
}
