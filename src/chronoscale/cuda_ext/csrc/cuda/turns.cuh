// Encodings of elapsed times on a device, and their gradients' sums over rows. Angles are computed in double, as on the CPU (cpu/turns.h).
#pragma once

#include <math.h>

#include "packs.cuh"

namespace cs {

constexpr double kFar = 2147483648.0;  // angles from here on are left to the library
constexpr int kTurnLanes = 32;         // columns of a block that sums rows
constexpr int64_t kTurnRows = 512;     // rows that it sums

template <class T>
struct Turn {
  T cosine, sine;
};

template <class T>
__device__ double angle_of(T frequency, T elapsed, T phase) { return static_cast<double>(frequency) * elapsed + static_cast<double>(phase); }

static __device__ __noinline__ Turn<double> turn_far(double angle) {
  Turn<double> result;
  sincos(angle, &result.sine, &result.cosine);
  return result;
}

template <class T>
__device__ Turn<T> turn(double angle);

template <>
inline __device__ Turn<double> turn<double>(double angle) { return turn_far(angle); }

// Quarters of a turn are taken off in double, by a pi / 2 in three parts; polynomials as in Cephes' sinf and cosf.
template <>
inline __device__ Turn<float> turn<float>(double angle) {
  if (!(fabs(angle) < kFar)) {
    const Turn<double> result = turn_far(angle);
    return {static_cast<float>(result.cosine), static_cast<float>(result.sine)};
  }
  const double n = rint(angle * 0.6366197723675814);
  const float r = static_cast<float>(((angle - n * 1.570796012878418) - n * 3.139164164167596e-07) - n * 6.223372171896613e-14);
  const float square = r * r;
  const float odd = r + r * square * (-1.6666654611e-1f + square * (8.3321608736e-3f + square * -1.9515295891e-4f));
  const float even =
      1.0f - 0.5f * square + square * square * (4.166664568298827e-2f + square * (-1.388731625493765e-3f + square * 2.443315711809948e-5f));
  const unsigned q = static_cast<unsigned>(static_cast<int64_t>(n));
  const float cosine = q & 1 ? odd : even, sine = q & 1 ? even : odd;
  return {(q + 1) & 2 ? -cosine : cosine, q & 2 ? -sine : sine};
}

// Gradients of frequency and phase by row, [rows, 2, clock]: those of frequencies, then those of phases.
template <class T>
struct Turns {
  const T* turns;
  int64_t clock;

  __device__ Pack<double, 2> of(int64_t row, int64_t column) const {
    const T* const from = turns + 2 * row * clock + column;
    return {{from[0], from[clock]}};
  }
};

// One block of `tiles` sums a piece of `each` rows for kTurnLanes columns; frequency and phase: a row a piece, `stride` numbers apart.
template <class T, class F>
__global__ void __launch_bounds__(kThreads) turn_sums_kernel(F from, int64_t rows, int64_t each, int64_t clock, int tiles, T* frequency, T* phase,
                                                             int64_t stride) {
  constexpr int kGroups = kThreads / kTurnLanes;
  const int group = threadIdx.x / kTurnLanes;
  const int64_t piece = blockIdx.x / tiles, column = blockIdx.x % tiles * kTurnLanes + threadIdx.x % kTurnLanes;
  const int64_t begin = piece * each, end = begin + each < rows ? begin + each : rows;
  Pack<double, 2> sum{};
  if (column < clock) {
#pragma unroll 4
    for (int64_t row = begin + group; row < end; row += kGroups) sum.add(from.of(row, column));
  }
  sum = of_groups(sum, kTurnLanes);
  if (group || column >= clock) return;
  frequency[piece * stride + column] = static_cast<T>(sum.v[0]);
  phase[piece * stride + column] = static_cast<T>(sum.v[1]);
}

// Computes frequency and phase [clock], the sums of `from` over all rows: by pieces of kTurnRows, then of these, from `partial` [pieces, 2,
// clock]. The order depends only on the sizes.
template <class T, class F>
cudaError_t sum_turns(const F& from, int64_t rows, int64_t clock, T* frequency, T* phase, T* partial, cudaStream_t stream) {
  const int64_t pieces = (rows + kTurnRows - 1) / kTurnRows, tiles = (clock + kTurnLanes - 1) / kTurnLanes;
  if ((pieces < 1 ? 1 : pieces) * tiles > INT64_C(0x7fffffff)) return cudaErrorInvalidConfiguration;
  const unsigned across = static_cast<unsigned>(tiles);
  if (pieces <= 1) {
    turn_sums_kernel<T, F><<<across, kThreads, 0, stream>>>(from, rows, rows, clock, across, frequency, phase, 0);
    return cudaGetLastError();
  }
  const unsigned blocks = static_cast<unsigned>(pieces) * across;
  turn_sums_kernel<T, F><<<blocks, kThreads, 0, stream>>>(from, rows, kTurnRows, clock, across, partial, partial + clock, 2 * clock);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  turn_sums_kernel<T, Turns<T>><<<across, kThreads, 0, stream>>>(Turns<T>{partial, clock}, pieces, pieces, clock, across, frequency, phase, 0);
  return cudaGetLastError();
}

}  // namespace cs
