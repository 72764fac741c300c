// Launch parameters of CUDA kernels, and error reports: a status for the caller, the cause for cs_cuda_last_error.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../common/chronoscale.h"

namespace cs {

constexpr int kThreads = 256;  // of a block
constexpr unsigned kAll = 0xffffffffu;

int report(cudaError_t error);

// Device and CUDA stream of a kernel, and its scratch memory (chronoscale.h).
struct Launch {
  int64_t entries;
  int32_t* counters;
  void* partial;
  const int32_t* cuts;
  int64_t cut_count;
  int device;
  void* stream;

  cudaStream_t on() const { return static_cast<cudaStream_t>(stream); }
};

// Returns the number of lanes of a warp that share a row: enough for `work`, a power of two up to 32.
inline int lanes_for(int64_t work) {
  int lanes = 1;
  while (lanes < 32 && lanes < work) lanes *= 2;
  return lanes;
}

// The same for a row's entries: as many as the mean row has, but 8 at least, for one row may have up to 511.
inline int lanes_for(int64_t entries, int64_t rows) { return lanes_for(entries / rows < 8 ? 8 : entries / rows); }

// Returns the number of blocks for rows of `lanes` threads each, after `before` others.
inline unsigned blocks_for(int64_t rows, int lanes, int64_t before) {
  const int64_t groups = kThreads / lanes;
  return static_cast<unsigned>(before + (rows + groups - 1) / groups);
}

}  // namespace cs
