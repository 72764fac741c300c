// Long rows of a matrix, spread over blocks. Its entries are cut into pieces of kPiece. A row of at least kPiece entries is summed piece by
// piece, by the first blocks of a grid: one for each piece of each such row, where these are listed, else one for each piece, which looks
// for them. The block that finishes a row's last piece adds up what the others wrote, in the pieces' order: results repeat bit for bit, and
// no row delays the others. All shorter rows are left to the blocks that follow.
#pragma once

#include "launch.h"

namespace cs {

constexpr int kPiece = 512;

__host__ __device__ inline int64_t pieces_of(int64_t entries) { return entries < kPiece ? 0 : (entries + kPiece - 1) / kPiece; }

// Returns the number of blocks for long rows.
inline int64_t pieces_of(const Launch& how) { return !how.counters ? 0 : how.cuts ? how.cut_count : pieces_of(how.entries); }

// Part of a long row that one block sums: entries [begin, end), into place `slot` of the partial results.
struct Part {
  int64_t row, begin, end, slot;
  int64_t first, last;  // the row's pieces
  bool aligned;         // the row begins where its first piece does

  // Returns the slot of the sum of the row's piece `at`. A piece holds one long row at its beginning and another, which starts within it,
  // at its end.
  __device__ int64_t slot_of(int64_t at) const { return 2 * at + (at == first && !aligned); }
};

// Returns the row of entry `at`, for a whole warp, which probes 32 rows at once.
__device__ inline int64_t row_of(const int64_t* indptr, int64_t rows, int64_t at) {
  int64_t low = 0, high = rows;  // indptr[low] <= at < indptr[high]
  while (high - low > 1) {
    const int64_t step = (high - low + 32) / 33, probe = low + (threadIdx.x % 32 + 1) * step;
    const bool before = probe < high && indptr[probe] <= at;
    low += __popc(__ballot_sync(kAll, before)) * step;
    high = low + step < high ? low + step : high;
  }
  return low;
}

// Calls sum(part) for the long rows of block `block`; every thread of the block calls it alike. cuts, only: as in chronoscale.h.
template <class F>
__device__ void long_rows(int64_t block, const int32_t* cuts, int64_t rows, const int64_t* indptr, int64_t entries, const uint8_t* only, F sum) {
  __shared__ int64_t ends[2];
  const int64_t piece = cuts ? cuts[2 * block + 1] : block, low = piece * kPiece, high = low + kPiece < entries ? low + kPiece : entries;
  if (!cuts) {
    const int warp = threadIdx.x / 32;
    if (warp < 2) {
      const int64_t row = row_of(indptr, rows, warp ? high - 1 : low);
      if (threadIdx.x % 32 == 0) ends[warp] = row;
    }
    __syncthreads();
  }
  for (int side = 0; side < (cuts ? 1 : 2); ++side) {
    const int64_t row = cuts ? cuts[2 * block] : ends[side], begin = indptr[row], end = indptr[row + 1];
    if ((side && row == ends[0]) || end - begin < kPiece || (only && !only[row])) continue;
    const int64_t first = begin / kPiece, slot = 2 * piece + (begin > low);
    sum(Part{row, begin > low ? begin : low, end < high ? end : high, slot, first, (end - 1) / kPiece, begin == first * kPiece});
  }
}

// Returns whether this block is the last of the row's: then all its pieces' partial results, written before the call, are there to be read.
__device__ inline bool last_of(const Part& part, int32_t* counters) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counters + part.first, 1) == part.last - part.first;
    if (last) counters[part.first] = 0;  // for the next call
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// The lanes, `lanes` of them, that share this thread's row.
__device__ inline unsigned peers(int lanes) {
  return lanes == 32 ? kAll : ((1u << lanes) - 1) << (threadIdx.x % 32 / lanes * lanes);
}

template <class T>
struct Plus {
  __device__ T operator()(T a, T b) const { return a + b; }
};

template <class T>
struct Larger {
  __device__ T operator()(T a, T b) const { return b > a ? b : a; }
};

// Reduces the values of all lanes of a group; each lane gets the result.
template <class T, class F>
__device__ T together(T value, int lanes, F put) {
  const unsigned mask = peers(lanes);
  for (int step = lanes / 2; step > 0; step /= 2) value = put(value, __shfl_xor_sync(mask, value, step, lanes));
  return value;
}

// Reduces the values of all threads of a block.
template <class T, class F>
__device__ T together_in_block(T value, F put) {
  __shared__ T warps[kThreads / 32];
  value = together(value, 32, put);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  T all = warps[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) all = put(all, warps[warp]);
  __syncthreads();
  return all;
}

}  // namespace cs
