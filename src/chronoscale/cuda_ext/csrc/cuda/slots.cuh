// Common code of the kernels of attention to slots (cs_cuda_slots): a block for each target, whose warps take slots in turn to score them,
// and whose threads have packs of columns where slots are summed and graded. Only gradients of slots are written; encodings are recomputed
// where they are read. Every sum has an order that depends only on the sizes.
#pragma once

#include <initializer_list>

#include "../common/operands.h"
#include "pieces.cuh"
#include "turns.cuh"

namespace cs {
namespace slots {

constexpr int kMost = 128;  // threads of a target: as many warps as its packs of columns fill
constexpr int kHeads = 2;   // heads that are computed together
constexpr int kAhead = 4;   // slots that a warp, and a thread, has on its way at once
constexpr int64_t kMostFanout = 1024;

// Operands of cs_slots, with frequencies and phases in their own dtype.
template <class T>
struct Slots : cs::Slots<T> {
  const T *frequency, *phase;

  __host__ __device__ int64_t across() const { return this->width + this->edges + this->clock; }
  // Returns where head h of target t begins in `query`, and in arrays of its shape.
  __device__ int64_t at_head(int64_t t, int64_t h) const { return (this->by_head ? h * this->targets + t : t * this->heads + h) * across(); }
};

// Reads V columns from `column` on of slot `k`, counted through all targets. A row outside the source reads as NaN.
template <class T, int V>
__device__ Pack<T, V> read(const Slots<T>& s, int64_t k, int64_t id, int64_t column) {
  Pack<T, V> values;
  if (column < s.width) {
    if (id >= 0 && id < s.sources) return at<T, V>(s.source + id * s.width + column);
#pragma unroll
    for (int i = 0; i < V; ++i) values.v[i] = T(NAN);
    return values;
  }
  return at<T, V>(s.edge + k * s.edges + column - s.width);
}

// Frequencies and phases of V columns, which stay in a thread's registers for all slots.
template <class T, int V>
struct Rates {
  Pack<T, V> frequency{}, phase{};

  // Of the columns from `column` on of a slot; nothing where it has no encoding there.
  __device__ Rates(const Slots<T>& s, int64_t column) {
    column -= s.width + s.edges;
    if (column < 0 || column >= s.clock) return;
#pragma unroll
    for (int i = 0; i < V; ++i) frequency.v[i] = s.frequency[column + i], phase.v[i] = s.phase[column + i];
  }

  __device__ cs::Turn<T> turn(T elapsed, int i) const { return cs::turn<T>(cs::angle_of(frequency.v[i], elapsed, phase.v[i])); }
};

// Computes scores[h, k] = left[h, :] . x_k of the filled slots of target t; [heads, fanout].
template <class T, int V>
__device__ void score(const Slots<T>& s, int64_t t, const T* left, T* scores) {
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
  const int64_t laid = s.width + s.edges;
  for (int64_t h = 0; h < s.heads; h += kHeads) {
    const T* const heads[kHeads] = {left + s.at_head(t, h), left + s.at_head(t, h + 1 < s.heads ? h + 1 : h)};
    for (int64_t first = warp; first < s.fanout; first += warps * kAhead) {
      int64_t ids[kAhead];
      T elapsed[kAhead], dots[kAhead][kHeads] = {};
      unsigned mask = 0;
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int64_t k = first + j * warps, slot = t * s.fanout + k;
        ids[j] = 0, elapsed[j] = 0;
        if (k >= s.fanout || !s.mask[slot]) continue;
        mask |= 1u << j;
        ids[j] = s.slot[slot];
        if (s.clock) elapsed[j] = s.elapsed[slot];
      }
      if (!mask) continue;
      for (int64_t column = lane * V; column < laid; column += 32 * V) {
        const Pack<T, V> own[kHeads] = {at<T, V>(heads[0] + column), at<T, V>(heads[1] + column)};
        Pack<T, V> x[kAhead];
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          if (mask & 1u << j) x[j] = read<T, V>(s, t * s.fanout + first + j * warps, ids[j], column);
        }
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          if (!(mask & 1u << j)) continue;
#pragma unroll
          for (int i = 0; i < V; ++i) dots[j][0] += own[0].v[i] * x[j].v[i], dots[j][1] += own[1].v[i] * x[j].v[i];
        }
      }
      for (int64_t column = lane; column < s.clock; column += 32) {
        const T own[kHeads] = {heads[0][laid + column], heads[1][laid + column]};
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          if (!(mask & 1u << j)) continue;
          const T cosine = cs::turn<T>(cs::angle_of(s.frequency[column], elapsed[j], s.phase[column])).cosine;
          dots[j][0] += own[0] * cosine, dots[j][1] += own[1] * cosine;
        }
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
#pragma unroll
        for (int i = 0; i < kHeads; ++i) {
          const T dot = cs::together(dots[j][i], 32, cs::Plus<T>());
          if (lane == 0 && mask & 1u << j && h + i < s.heads) scores[(h + i) * s.fanout + first + j * warps] = dot;
        }
      }
    }
  }
  __syncthreads();
}

// Shared memory for a tile of a target's slots, as many as the block has threads.
template <class T>
struct Tile {
  int64_t ids[kMost];
  uint8_t mask[kMost];
  T elapsed[kMost], weights[kHeads][kMost], scores[kHeads][kMost];

  // This thread's slot, `k` of all.
  __device__ void lay(const Slots<T>& s, int64_t k) {
    mask[threadIdx.x] = s.mask[k];
    ids[threadIdx.x] = s.slot[k];
    if (s.clock) elapsed[threadIdx.x] = s.elapsed[k];
  }
};

// Returns whether sizes and pointers are valid.
template <class T>
bool sound(const Slots<T>& s) {
  if (s.targets < 0 || s.fanout < 0 || s.fanout > kMostFanout || s.heads < 1 || s.width < 0 || s.edges < 0 || s.clock < 0) return false;
  if (s.sources < 0 || s.targets > INT64_C(0x7fffffff)) return false;
  if (s.targets == 0 || s.fanout == 0) return true;
  if (!s.slot || !s.mask || (s.clock > 0 && (!s.elapsed || !s.frequency || !s.phase))) return false;
  return s.across() == 0 || (s.query && (s.width == 0 || s.sources == 0 || s.source) && (s.edges == 0 || s.edge));
}

template <class T>
bool empty(const Slots<T>& s) { return s.targets == 0 || s.fanout == 0 || s.across() == 0; }

// Whether every part of a slot, and what has its columns, can be read V at a time.
template <int V, class T>
bool wide(const Slots<T>& s, std::initializer_list<const T*> columns) {
  bool all = cs::fits<V>(s.source, s.width) && cs::fits<V>(s.edge, s.edges) && s.clock % V == 0 && cs::fits<V>(s.query, s.across());
  for (const T* pointer : columns) all = all && cs::fits<V>(pointer, s.across());
  return all;
}

template <class T>
unsigned threads_for(const Slots<T>& s, int64_t packed) {
  const int64_t warps = (s.across() / packed + 31) / 32;
  return static_cast<unsigned>(32 * (warps < 1 ? 1 : warps < kMost / 32 ? warps : kMost / 32));
}

}  // namespace slots
}  // namespace cs

#define CS_OPERANDS(T)                                                                                                                         \
  cs::slots::Slots<T>{{targets, fanout, heads, width, edges, clock, sources, query, source, slot, mask, elapsed, edge, nullptr, nullptr, 0, 0, \
            keep, by_head != 0}, frequency, phase}
