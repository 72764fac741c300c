// Gradients of attention to sampled slots on a CUDA stream (slots.cuh): of queries, sources, edges, frequencies and phases.
#include "slots.cuh"

namespace {

using namespace cs::slots;
using cs::at;
using cs::Launch;
using cs::Pack;

static_assert(cs::kTurnRows == cs::kPiece, "`partial` has room for pieces");

// Operands of cs_cuda_slots_grad.
template <class T>
struct SlotsGrad : Slots<T> {
  const T *weights, *into;
  T *scores, *into_query, *rows, *into_edge, *turns;
};

// Turns gradients of weights, in `scores`, into those of scores, for a warp.
template <class T>
__device__ void derive(const SlotsGrad<T>& s, int64_t t, int64_t h) {
  const int64_t begin = (t * s.heads + h) * s.fanout;
  const uint8_t* const mask = s.mask + t * s.fanout;
  const auto of = [&](int64_t k) { return s.scores[begin + k] * (s.keep ? s.keep[begin + k] : T(1)); };
  T mean = 0;
  for (int64_t k = threadIdx.x % 32; k < s.fanout; k += 32) {
    if (mask[k]) mean += s.weights[begin + k] * of(k);
  }
  mean = cs::together(mean, 32, cs::Plus<T>());
  for (int64_t k = threadIdx.x % 32; k < s.fanout; k += 32) {
    if (mask[k]) s.scores[begin + k] = s.weights[begin + k] * (of(k) - mean);
  }
}

// Adds to the sum of the earlier heads in `to`, or, if `first`, writes it.
template <class T, int V>
__device__ void leave(T* to, Pack<T, V> gradient, bool first) {
  if (!first) gradient.add(at<T, V>(to));
  at<T, V>(to) = gradient;
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
      const Rates<T, V> rates(s, column);
      Pack<T, V> sums[kHeads] = {}, query[kHeads] = {}, into[kHeads] = {}, by_frequency{}, by_phase{};
      if (column < across) {
        query[0] = at<T, V>(s.query + s.at_head(t, h) + column), into[0] = at<T, V>(s.into + s.at_head(t, h) + column);
        if (pair) query[1] = at<T, V>(s.query + s.at_head(t, h + 1) + column), into[1] = at<T, V>(s.into + s.at_head(t, h + 1) + column);
      }
      for (int64_t from = 0; from < s.fanout; from += blockDim.x) {
        const int count = static_cast<int>(s.fanout - from < blockDim.x ? s.fanout - from : blockDim.x);
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < count) {
          const int64_t k = from + threadIdx.x;
          tile.lay(s, first + k);
#pragma unroll
          for (int i = 0; i < kHeads; ++i) {
            const int64_t at = (t * s.heads + h + i) * s.fanout + k;
            const bool has = h + i < s.heads && s.mask[first + k];
            tile.scores[i][threadIdx.x] = has ? s.scores[at] : T(0);
            tile.weights[i][threadIdx.x] = has ? s.weights[at] * (s.keep ? s.keep[at] : T(1)) : T(0);
          }
        }
        __syncthreads();
        if (column >= across) continue;
        for (int k = 0; k < count; ++k) {
          const int64_t slot = first + from + k;
          Pack<T, V> gradient{};  // the slot's own gradient
          if (tile.mask[k]) {
#pragma unroll
            for (int i = 0; i < V; ++i) {
              gradient.v[i] = tile.scores[0][k] * query[0].v[i] + tile.weights[0][k] * into[0].v[i] + tile.scores[1][k] * query[1].v[i] +
                          tile.weights[1][k] * into[1].v[i];
            }
          }
          if (column < s.width) {
            if (s.rows && tile.mask[k]) leave<T, V>(s.rows + slot * s.width + column, gradient, h == 0);
          } else if (column < laid && s.into_edge) {
            leave<T, V>(s.into_edge + slot * s.edges + column - s.width, gradient, h == 0);
          }
          if (!tile.mask[k]) continue;
          if (column < laid) {
            if (!s.into_query) continue;
            const Pack<T, V> x = read<T, V>(s, slot, tile.ids[k], column);
#pragma unroll
            for (int i = 0; i < V; ++i) sums[0].v[i] += tile.scores[0][k] * x.v[i], sums[1].v[i] += tile.scores[1][k] * x.v[i];
          } else if (s.into_query || s.turns) {
            const T elapsed = tile.elapsed[k];
#pragma unroll
            for (int i = 0; i < V; ++i) {
              const cs::Turn<T> turn = rates.turn(elapsed, i);
              sums[0].v[i] += tile.scores[0][k] * turn.cosine, sums[1].v[i] += tile.scores[1][k] * turn.cosine;
              const T turned = gradient.v[i] * turn.sine;
              by_phase.v[i] -= turned, by_frequency.v[i] -= elapsed * turned;
            }
          }
        }
      }
      if (column >= across) continue;
      if (s.into_query) {
        at<T, V>(s.into_query + s.at_head(t, h) + column) = sums[0];
        if (pair) at<T, V>(s.into_query + s.at_head(t, h + 1) + column) = sums[1];
      }
      if (s.turns && column >= laid) {
        leave<T, V>(s.turns + 2 * t * s.clock + column - laid, by_frequency, h == 0);
        leave<T, V>(s.turns + (2 * t + 1) * s.clock + column - laid, by_phase, h == 0);
      }
    }
  }
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
  const bool packed = wide<kWide, T>(s, {s.into, s.into_query}) && cs::fits<kWide>(s.rows, s.width) && cs::fits<kWide>(s.into_edge, s.edges) &&
                      cs::fits<kWide>(s.turns, s.clock);
  if (packed) slots_grad_kernel<T, kWide><<<blocks, threads_for(s, kWide), 0, how.on()>>>(s);
  else slots_grad_kernel<T, 1><<<blocks, threads_for(s, 1), 0, how.on()>>>(s);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess || !clock) return cs::report(error);
  const cs::Turns<T> turns{s.turns, s.clock};
  return cs::report(cs::sum_turns(turns, s.targets, s.clock, into_frequency, into_phase, static_cast<T*>(how.partial), how.on()));
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                              \
  int cs_cuda_slots_grad_##kind(CS_SLOTS(T), const T* weights, const T* into, T* scores, T* into_query, T* rows,        \
                                T* into_edge, T* turns, T* into_frequency, T* into_phase, CS_CUDA_LAUNCH) {             \
    return run(SlotsGrad<T>{CS_OPERANDS(T), weights, into, scores, into_query, rows, into_edge, turns}, into_frequency, \
               into_phase, {entries, counters, partial, cuts, cut_count, device, stream});                              \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
