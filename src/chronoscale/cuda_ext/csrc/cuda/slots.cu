// Attention to sampled slots on a stream: a block for each target, whose warps take slots in turn to score them, and whose threads have
// packs of columns where slots are summed and graded. Nothing of a slot is written but its gradients; encodings are formed anew where they
// are read. Every number is summed in an order that the sizes alone decide.
#include <initializer_list>

#include "../common/operands.h"
#include "pieces.cuh"
#include "turns.cuh"

namespace {

using cs::at;
using cs::Launch;
using cs::Pack;

constexpr int kMost = 128;  // threads of a target: as many warps as its packs of columns fill
constexpr int kHeads = 2;   // that are gone through together
constexpr int kAhead = 4;   // slots that a warp, and a thread, has on its way at once
constexpr int64_t kMostFanout = 1024;

static_assert(cs::kTurnRows == cs::kPiece, "`partial` has room for pieces");

// cs::Slots, with frequencies and phases as they are given.
template <class T>
struct Slots : cs::Slots<T> {
  const T *frequency, *phase;

  __host__ __device__ int64_t across() const { return this->width + this->edges + this->clock; }
  // Where what head h of target t has of `wanted`, and of what has its shape, begins.
  __device__ int64_t at_head(int64_t t, int64_t h) const { return (this->by_head ? h * this->targets + t : t * this->heads + h) * across(); }
};

// As cs_cuda_slots_grad.
template <class T>
struct SlotsGrad : Slots<T> {
  const T *weights, *into;
  T *scores, *into_wanted, *rows, *into_edge, *turns;
};

// The V columns from `column` on of slot `k` of all, counted through all targets. A row of the source that is not there is no number.
template <class T, int V>
__device__ Pack<T, V> read(const Slots<T>& s, int64_t k, int64_t id, int64_t column) {
  Pack<T, V> made;
  if (column < s.width) {
    if (id >= 0 && id < s.sources) return at<T, V>(s.source + id * s.width + column);
#pragma unroll
    for (int i = 0; i < V; ++i) made.v[i] = T(NAN);
    return made;
  }
  return at<T, V>(s.edge + k * s.edges + column - s.width);
}

template <class T, int V>
__device__ double angle(const Slots<T>& s, T elapsed, int64_t column, int i) {
  return cs::angle_of(s.frequency[column + i], elapsed, s.phase[column + i]);
}

// scores[h, k] = left[h, :] . x_k, of the slots of target t that are there; [heads, fanout].
template <class T, int V>
__device__ void score(const Slots<T>& s, int64_t t, const T* left, T* scores) {
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
  const int64_t laid = s.width + s.edges;
  for (int64_t h = 0; h < s.heads; h += kHeads) {
    const T* const heads[kHeads] = {left + s.at_head(t, h), left + s.at_head(t, h + 1 < s.heads ? h + 1 : h)};
    for (int64_t first = warp; first < s.fanout; first += warps * kAhead) {
      int64_t ids[kAhead];
      T elapsed[kAhead], dots[kAhead][kHeads] = {};
      unsigned there = 0;
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int64_t k = first + j * warps, slot = t * s.fanout + k;
        ids[j] = 0, elapsed[j] = 0;
        if (k >= s.fanout || !s.there[slot]) continue;
        there |= 1u << j;
        ids[j] = s.slot[slot];
        if (s.clock) elapsed[j] = s.elapsed[slot];
      }
      if (!there) continue;
      for (int64_t column = lane * V; column < laid; column += 32 * V) {
        const Pack<T, V> own[kHeads] = {at<T, V>(heads[0] + column), at<T, V>(heads[1] + column)};
        Pack<T, V> x[kAhead];
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          if (there & 1u << j) x[j] = read<T, V>(s, t * s.fanout + first + j * warps, ids[j], column);
        }
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          if (!(there & 1u << j)) continue;
#pragma unroll
          for (int i = 0; i < V; ++i) dots[j][0] += own[0].v[i] * x[j].v[i], dots[j][1] += own[1].v[i] * x[j].v[i];
        }
      }
      for (int64_t column = lane; column < s.clock; column += 32) {
        const T own[kHeads] = {heads[0][laid + column], heads[1][laid + column]};
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          if (!(there & 1u << j)) continue;
          const T cosine = cs::turn<T>(cs::angle_of(s.frequency[column], elapsed[j], s.phase[column])).cosine;
          dots[j][0] += own[0] * cosine, dots[j][1] += own[1] * cosine;
        }
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
#pragma unroll
        for (int i = 0; i < kHeads; ++i) {
          const T dot = cs::together(dots[j][i], 32, cs::Plus<T>());
          if (lane == 0 && there & 1u << j && h + i < s.heads) scores[(h + i) * s.fanout + first + j * warps] = dot;
        }
      }
    }
  }
  __syncthreads();
}

// What a tile of a target's slots is read by: as many slots as the block has threads.
template <class T>
struct Tile {
  int64_t ids[kMost];
  uint8_t there[kMost];
  T elapsed[kMost], weights[kHeads][kMost], scores[kHeads][kMost];
};

// Scores to weights, for a warp: those that are there by their softmax, others 0.
template <class T>
__device__ void settle(const uint8_t* there, int64_t fanout, T* scores) {
  const int lane = threadIdx.x % 32;
  T top = -T(INFINITY), total = 0;
  for (int64_t k = lane; k < fanout; k += 32) {
    if (there[k]) top = cs::Larger<T>()(top, scores[k]);
  }
  top = cs::together(top, 32, cs::Larger<T>());
  for (int64_t k = lane; k < fanout; k += 32) {
    const T power = there[k] ? exp(scores[k] - top) : T(0);
    scores[k] = power;
    total += power;
  }
  total = cs::together(total, 32, cs::Plus<T>());
  for (int64_t k = lane; k < fanout; k += 32) scores[k] = there[k] ? scores[k] / total : T(0);
}

template <class T, int V>
__global__ void __launch_bounds__(kMost) slots_kernel(Slots<T> s, T* weights, T* out) {
  __shared__ Tile<T> tile;
  const int64_t t = blockIdx.x, first = t * s.fanout;
  T* const own = weights + t * s.heads * s.fanout;
  score<T, V>(s, t, s.wanted, own);
  for (int64_t h = threadIdx.x / 32; h < s.heads; h += blockDim.x / 32) settle(s.there + first, s.fanout, own + h * s.fanout);
  const int64_t laid = s.width + s.edges, across = s.across();
  for (int64_t h = 0; h < s.heads; h += kHeads) {
    for (int64_t base = 0; base < across; base += blockDim.x * V) {
      const int64_t column = base + static_cast<int64_t>(threadIdx.x) * V;
      Pack<T, V> sums[kHeads] = {};
      for (int64_t from = 0; from < s.fanout; from += blockDim.x) {
        const int count = static_cast<int>(s.fanout - from < blockDim.x ? s.fanout - from : blockDim.x);
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < count) {
          const int64_t k = from + threadIdx.x;
          tile.there[threadIdx.x] = s.there[first + k];
          tile.ids[threadIdx.x] = s.slot[first + k];
          if (s.clock) tile.elapsed[threadIdx.x] = s.elapsed[first + k];
#pragma unroll
          for (int i = 0; i < kHeads; ++i) {
            const int64_t at = (h + i) * s.fanout + k;
            const bool has = h + i < s.heads && s.there[first + k];
            tile.weights[i][threadIdx.x] = has ? own[at] * (s.keep ? s.keep[t * s.heads * s.fanout + at] : T(1)) : T(0);
          }
        }
        __syncthreads();
        if (column >= across) continue;
        if (column < laid) {
          for (int k = 0; k < count; k += kAhead) {
            Pack<T, V> x[kAhead];
#pragma unroll
            for (int j = 0; j < kAhead; ++j) {
              if (k + j < count && tile.there[k + j]) x[j] = read<T, V>(s, first + from + k + j, tile.ids[k + j], column);
            }
#pragma unroll
            for (int j = 0; j < kAhead; ++j) {
              if (k + j >= count || !tile.there[k + j]) continue;
#pragma unroll
              for (int i = 0; i < V; ++i) {
                sums[0].v[i] += tile.weights[0][k + j] * x[j].v[i];
                sums[1].v[i] += tile.weights[1][k + j] * x[j].v[i];
              }
            }
          }
        } else {
          for (int k = 0; k < count; ++k) {
            if (!tile.there[k]) continue;
#pragma unroll
            for (int i = 0; i < V; ++i) {
              const T cosine = cs::turn<T>(angle<T, V>(s, tile.elapsed[k], column - laid, i)).cosine;
              sums[0].v[i] += tile.weights[0][k] * cosine;
              sums[1].v[i] += tile.weights[1][k] * cosine;
            }
          }
        }
      }
      if (column >= across) continue;
      at<T, V>(out + s.at_head(t, h) + column) = sums[0];
      if (h + 1 < s.heads) at<T, V>(out + s.at_head(t, h + 1) + column) = sums[1];
    }
  }
}

// Gradients of weights, in `scores`, to those of scores, for a warp.
template <class T>
__device__ void derive(const SlotsGrad<T>& s, int64_t t, int64_t h) {
  const int64_t begin = (t * s.heads + h) * s.fanout;
  const uint8_t* const there = s.there + t * s.fanout;
  const auto of = [&](int64_t k) { return s.scores[begin + k] * (s.keep ? s.keep[begin + k] : T(1)); };
  T mean = 0;
  for (int64_t k = threadIdx.x % 32; k < s.fanout; k += 32) {
    if (there[k]) mean += s.weights[begin + k] * of(k);
  }
  mean = cs::together(mean, 32, cs::Plus<T>());
  for (int64_t k = threadIdx.x % 32; k < s.fanout; k += 32) {
    if (there[k]) s.scores[begin + k] = s.weights[begin + k] * (of(k) - mean);
  }
}

// Adds to what an earlier pair of heads left in `to`, or, `first`, writes it.
template <class T, int V>
__device__ void leave(T* to, Pack<T, V> made, bool first) {
  if (!first) made.add(at<T, V>(to));
  at<T, V>(to) = made;
}

template <class T, int V>
__global__ void __launch_bounds__(kMost) slots_grad_kernel(SlotsGrad<T> s) {
  __shared__ Tile<T> tile;
  const int64_t t = blockIdx.x, first = t * s.fanout;
  score<T, V>(s, t, s.into, s.scores + t * s.heads * s.fanout);
  for (int64_t h = threadIdx.x / 32; h < s.heads; h += blockDim.x / 32) derive(s, t, h);
  const int64_t laid = s.width + s.edges, across = s.across();
  for (int64_t h = 0; h < s.heads; h += kHeads) {
    const bool pair = h + 1 < s.heads;
    for (int64_t base = 0; base < across; base += blockDim.x * V) {
      const int64_t column = base + static_cast<int64_t>(threadIdx.x) * V;
      Pack<T, V> sums[kHeads] = {}, wanted[kHeads] = {}, into[kHeads] = {}, by_frequency{}, by_phase{};
      if (column < across) {
        wanted[0] = at<T, V>(s.wanted + s.at_head(t, h) + column), into[0] = at<T, V>(s.into + s.at_head(t, h) + column);
        if (pair) wanted[1] = at<T, V>(s.wanted + s.at_head(t, h + 1) + column), into[1] = at<T, V>(s.into + s.at_head(t, h + 1) + column);
      }
      for (int64_t from = 0; from < s.fanout; from += blockDim.x) {
        const int count = static_cast<int>(s.fanout - from < blockDim.x ? s.fanout - from : blockDim.x);
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < count) {
          const int64_t k = from + threadIdx.x;
          tile.there[threadIdx.x] = s.there[first + k];
          tile.ids[threadIdx.x] = s.slot[first + k];
          if (s.clock) tile.elapsed[threadIdx.x] = s.elapsed[first + k];
#pragma unroll
          for (int i = 0; i < kHeads; ++i) {
            const int64_t at = (t * s.heads + h + i) * s.fanout + k;
            const bool has = h + i < s.heads && s.there[first + k];
            tile.scores[i][threadIdx.x] = has ? s.scores[at] : T(0);
            tile.weights[i][threadIdx.x] = has ? s.weights[at] * (s.keep ? s.keep[at] : T(1)) : T(0);
          }
        }
        __syncthreads();
        if (column >= across) continue;
        for (int k = 0; k < count; ++k) {
          const int64_t slot = first + from + k;
          Pack<T, V> made{};  // the slot's own gradient
          if (tile.there[k]) {
#pragma unroll
            for (int i = 0; i < V; ++i) {
              made.v[i] = tile.scores[0][k] * wanted[0].v[i] + tile.weights[0][k] * into[0].v[i] + tile.scores[1][k] * wanted[1].v[i] +
                          tile.weights[1][k] * into[1].v[i];
            }
          }
          if (column < s.width) {
            if (s.rows && tile.there[k]) leave<T, V>(s.rows + slot * s.width + column, made, h == 0);
          } else if (column < laid && s.into_edge) {
            leave<T, V>(s.into_edge + slot * s.edges + column - s.width, made, h == 0);
          }
          if (!tile.there[k]) continue;
          if (column < laid) {
            if (!s.into_wanted) continue;
            const Pack<T, V> x = read<T, V>(s, slot, tile.ids[k], column);
#pragma unroll
            for (int i = 0; i < V; ++i) sums[0].v[i] += tile.scores[0][k] * x.v[i], sums[1].v[i] += tile.scores[1][k] * x.v[i];
          } else if (s.into_wanted || s.turns) {
            const T elapsed = tile.elapsed[k];
#pragma unroll
            for (int i = 0; i < V; ++i) {
              const cs::Turn<T> turn = cs::turn<T>(angle<T, V>(s, elapsed, column - laid, i));
              sums[0].v[i] += tile.scores[0][k] * turn.cosine, sums[1].v[i] += tile.scores[1][k] * turn.cosine;
              const T turned = made.v[i] * turn.sine;
              by_phase.v[i] -= turned, by_frequency.v[i] -= elapsed * turned;
            }
          }
        }
      }
      if (column >= across) continue;
      if (s.into_wanted) {
        at<T, V>(s.into_wanted + s.at_head(t, h) + column) = sums[0];
        if (pair) at<T, V>(s.into_wanted + s.at_head(t, h + 1) + column) = sums[1];
      }
      if (s.turns && column >= laid) {
        leave<T, V>(s.turns + 2 * t * s.clock + column - laid, by_frequency, h == 0);
        leave<T, V>(s.turns + (2 * t + 1) * s.clock + column - laid, by_phase, h == 0);
      }
    }
  }
}

template <class T>
bool sound(const Slots<T>& s) {
  if (s.targets < 0 || s.fanout < 0 || s.fanout > kMostFanout || s.heads < 1 || s.width < 0 || s.edges < 0 || s.clock < 0) return false;
  if (s.sources < 0 || s.targets > INT64_C(0x7fffffff)) return false;
  if (s.targets == 0 || s.fanout == 0) return true;
  if (!s.slot || !s.there || (s.clock > 0 && (!s.elapsed || !s.frequency || !s.phase))) return false;
  return s.across() == 0 || (s.wanted && (s.width == 0 || s.sources == 0 || s.source) && (s.edges == 0 || s.edge));
}

template <class T>
bool empty(const Slots<T>& s) { return s.targets == 0 || s.fanout == 0 || s.across() == 0; }

// Whether every part of a slot, and what has its columns, can be read V at a time.
template <int V, class T>
bool wide(const Slots<T>& s, std::initializer_list<const T*> columns) {
  bool all = cs::fits<V>(s.source, s.width) && cs::fits<V>(s.edge, s.edges) && s.clock % V == 0 && cs::fits<V>(s.wanted, s.across());
  for (const T* pointer : columns) all = all && cs::fits<V>(pointer, s.across());
  return all;
}

template <class T>
unsigned threads_for(const Slots<T>& s, int64_t packed) {
  const int64_t warps = (s.across() / packed + 31) / 32;
  return static_cast<unsigned>(32 * (warps < 1 ? 1 : warps < kMost / 32 ? warps : kMost / 32));
}

template <class T>
int run(const Slots<T>& s, T* weights, T* out, const Launch& how) {
  if (!sound(s)) return CS_ERROR_ARGUMENT;
  if (empty(s)) return CS_OK;
  if (!weights || !out) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(how.device); error != cudaSuccess) return cs::report(error);
  constexpr int kWide = 16 / sizeof(T);
  const unsigned blocks = static_cast<unsigned>(s.targets);
  if (wide<kWide, T>(s, {out})) slots_kernel<T, kWide><<<blocks, threads_for(s, kWide), 0, how.on()>>>(s, weights, out);
  else slots_kernel<T, 1><<<blocks, threads_for(s, 1), 0, how.on()>>>(s, weights, out);
  return cs::report(cudaGetLastError());
}

template <class T>
int run(SlotsGrad<T> s, T* into_frequency, T* into_phase, const Launch& how) {
  if (!sound(s) || (into_frequency == nullptr) != (into_phase == nullptr)) return CS_ERROR_ARGUMENT;
  if (empty(s)) return CS_OK;
  const bool clock = into_frequency && s.clock > 0;
  if (!s.weights || !s.into || !s.scores || (clock && (!s.turns || (s.targets > cs::kPiece && !how.partial)))) return CS_ERROR_ARGUMENT;
  if (!clock) s.turns = nullptr;
  if (const cudaError_t error = cudaSetDevice(how.device); error != cudaSuccess) return cs::report(error);
  constexpr int kWide = 16 / sizeof(T);
  const unsigned blocks = static_cast<unsigned>(s.targets);
  const bool packed = wide<kWide, T>(s, {s.into, s.into_wanted}) && cs::fits<kWide>(s.rows, s.width) && cs::fits<kWide>(s.into_edge, s.edges) &&
                      cs::fits<kWide>(s.turns, s.clock);
  if (packed) slots_grad_kernel<T, kWide><<<blocks, threads_for(s, kWide), 0, how.on()>>>(s);
  else slots_grad_kernel<T, 1><<<blocks, threads_for(s, 1), 0, how.on()>>>(s);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess || !clock) return cs::report(error);
  const cs::Turns<T> turns{s.turns, s.clock};
  return cs::report(cs::sum_turns(turns, s.targets, s.clock, into_frequency, into_phase, static_cast<T*>(how.partial), how.on()));
}

}  // namespace

#define CS_GIVEN(T)                                                                                                                    \
  Slots<T>{{targets, fanout, heads, width, edges, clock, sources, wanted, source, slot, there, elapsed, edge, nullptr, nullptr, 0, 0, \
            keep, by_head != 0}, frequency, phase}
#define CS_DEFINE(kind, T)                                                                                                    \
  int cs_cuda_slots_##kind(CS_SLOTS(T), T* weights, T* out, CS_CUDA_LAUNCH) {                                                 \
    return run(CS_GIVEN(T), weights, out, {entries, counters, partial, cuts, cut_count, device, stream});                                      \
  }                                                                                                                           \
  int cs_cuda_slots_grad_##kind(CS_SLOTS(T), const T* weights, const T* into, T* scores, T* into_wanted, T* rows,             \
                                T* into_edge, T* turns, T* into_frequency, T* into_phase, CS_CUDA_LAUNCH) {                   \
    return run(SlotsGrad<T>{CS_GIVEN(T), weights, into, scores, into_wanted, rows, into_edge, turns}, into_frequency,         \
               into_phase, {entries, counters, partial, cuts, cut_count, device, stream});                                                     \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
#undef CS_GIVEN
