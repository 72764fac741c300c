// Kernels that compute number by number in rows of `hidden` columns: lanes of a row for packs of its columns.
#pragma once

#include <math.h>

#include <initializer_list>
#include <type_traits>

#include "packs.cuh"

namespace cs {

template <class T>
__device__ T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }

// Calls f(row, column) for the packs of a row that are this thread's. hidden is a multiple of V.
template <int V, class F>
__device__ void each_pack(int64_t rows, int64_t hidden, int lanes, F f) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes;
  if (row >= rows) return;
  for (int64_t column = static_cast<int64_t>(threadIdx.x % lanes) * V; column < hidden; column += static_cast<int64_t>(lanes) * V) f(row, column);
}

// Calls start(blocks, lanes, V as a type's number) with packs as wide as all of `pointers` allow.
template <class T, class F>
int launch_packs(int64_t rows, int64_t hidden, std::initializer_list<const T*> pointers, int device, F start) {
  constexpr int kWide = 16 / sizeof(T);
  bool wide = true;
  for (const T* pointer : pointers) wide = wide && fits<kWide>(pointer, hidden);
  const int lanes = lanes_for((hidden + (wide ? kWide : 1) - 1) / (wide ? kWide : 1));
  const int64_t blocks = (rows + kThreads / lanes - 1) / (kThreads / lanes);
  if (blocks > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return report(error);
  if (wide) start(static_cast<unsigned>(blocks), lanes, std::integral_constant<int, kWide>());
  else start(static_cast<unsigned>(blocks), lanes, std::integral_constant<int, 1>());
  return report(cudaGetLastError());
}

}  // namespace cs
