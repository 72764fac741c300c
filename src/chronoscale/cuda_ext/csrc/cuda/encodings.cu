// Encodings of elapsed times on a CUDA stream (cs_cuda_encode), a thread a pack of a row's numbers, and the gradients of frequencies and
// phases.
#include "../common/operands.h"
#include "pieces.cuh"
#include "turns.cuh"

namespace {

using cs::at;
using cs::kThreads;
using cs::Launch;
using cs::Pack;

static_assert(cs::kTurnRows == cs::kPiece, "`partial` has room for pieces");

template <class T>
struct Encoding {
  int64_t rows, clock;
  const T *elapsed, *frequency, *phase;
  T *cosine, *sine;
};

template <class T, int V>
__global__ void __launch_bounds__(kThreads) encode_kernel(Encoding<T> e, int lanes) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes;
  if (row >= e.rows) return;
  const T elapsed = e.elapsed[row];
  for (int64_t column = static_cast<int64_t>(threadIdx.x % lanes) * V; column < e.clock; column += static_cast<int64_t>(lanes) * V) {
    const Pack<T, V> frequency = at<T, V>(e.frequency + column), phase = at<T, V>(e.phase + column);
    Pack<T, V> cosine, sine;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const cs::Turn<T> turn = cs::turn<T>(cs::angle_of(frequency.v[i], elapsed, phase.v[i]));
      cosine.v[i] = turn.cosine, sine.v[i] = turn.sine;
    }
    at<T, V>(e.cosine + row * e.clock + column) = cosine;
    if (e.sine) at<T, V>(e.sine + row * e.clock + column) = sine;
  }
}

template <class T>
struct Encoded {
  const T *elapsed, *sine, *into;
  int64_t clock;

  __device__ Pack<double, 2> of(int64_t row, int64_t column) const {
    const double turned = -static_cast<double>(into[row * clock + column]) * sine[row * clock + column];
    return {{elapsed[row] * turned, turned}};
  }
};

template <class T, int V>
int launch(const Encoding<T>& e, const Launch& how) {
  const int lanes = cs::lanes_for((e.clock + V - 1) / V);
  const int64_t blocks = (e.rows + kThreads / lanes - 1) / (kThreads / lanes);
  if (blocks > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  encode_kernel<T, V><<<static_cast<unsigned>(blocks), kThreads, 0, how.on()>>>(e, lanes);
  return cs::report(cudaGetLastError());
}

template <class T>
int run(const Encoding<T>& e, const Launch& how) {
  if (e.rows < 0 || e.clock < 0) return CS_ERROR_ARGUMENT;
  if (e.rows == 0 || e.clock == 0) return CS_OK;
  if (!e.elapsed || !e.frequency || !e.phase || !e.cosine) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(how.device); error != cudaSuccess) return cs::report(error);
  constexpr int kWide = 16 / sizeof(T);
  const bool wide = cs::fits<kWide>(e.frequency, e.clock) && cs::fits<kWide>(e.phase, e.clock) && cs::fits<kWide>(e.cosine, e.clock) &&
                    cs::fits<kWide>(e.sine, e.clock);
  return wide ? launch<T, kWide>(e, how) : launch<T, 1>(e, how);
}

template <class T>
int run(const Encoded<T>& e, int64_t rows, T* frequency, T* phase, const Launch& how) {
  if (rows < 0 || e.clock < 0) return CS_ERROR_ARGUMENT;
  if (e.clock == 0) return CS_OK;
  if (!frequency || !phase || (rows > 0 && (!e.elapsed || !e.sine || !e.into)) || (rows > cs::kPiece && !how.partial)) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(how.device); error != cudaSuccess) return cs::report(error);
  return cs::report(cs::sum_turns(e, rows, e.clock, frequency, phase, static_cast<T*>(how.partial), how.on()));
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                                                        \
  int cs_cuda_encode_##kind(int64_t rows, int64_t clock, const T* elapsed, const T* frequency, const T* phase, T* cosine,                         \
                            T* sine, CS_CUDA_LAUNCH) {                                                                                            \
    return run(Encoding<T>{rows, clock, elapsed, frequency, phase, cosine, sine}, {entries, counters, partial, cuts, cut_count, device, stream}); \
  }                                                                                                                                               \
  int cs_cuda_encode_grad_##kind(int64_t rows, int64_t clock, const T* elapsed, const T* sine, const T* into, T* frequency,                       \
                                 T* phase, CS_CUDA_LAUNCH) {                                                                                      \
    return run(Encoded<T>{elapsed, sine, into, clock}, rows, frequency, phase, {entries, counters, partial, cuts, cut_count, device, stream});    \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
