// How CUDA kernels start and report: a status for the caller, the cause for cs_cuda_last_error.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../common/chronoscale.h"

namespace cs {

constexpr int kThreads = 256;  // of a block

int report(cudaError_t error);  // aggregate.cu

// kernel(s) with a warp for each of s.rows rows, where its pointers fit.
template <class S>
int warps(const S& s, bool fit, void (*kernel)(S), int device, void* stream) {
  if (s.rows < 0 || s.rows > INT64_C(0x3fffffff)) return CS_ERROR_ARGUMENT;
  if (s.rows == 0) return CS_OK;
  if (!fit) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return report(error);
  const auto blocks = static_cast<unsigned>((s.rows * 32 + kThreads - 1) / kThreads);
  kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(s);
  return report(cudaGetLastError());
}

}  // namespace cs
