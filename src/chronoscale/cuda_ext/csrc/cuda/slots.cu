// Attention to sampled slots on a CUDA stream (slots.cuh): scores, their softmax, and the sums.
#include "slots.cuh"

namespace {

using namespace cs::slots;
using cs::at;
using cs::Launch;
using cs::Pack;

// Turns scores into weights, for a warp: the softmax over filled slots, 0 for the others.
template <class T>
__device__ void settle(const uint8_t* mask, int64_t fanout, T* scores) {
  const int lane = threadIdx.x % 32;
  T top = -T(INFINITY), total = 0;
  for (int64_t k = lane; k < fanout; k += 32) {
    if (mask[k]) top = cs::Larger<T>()(top, scores[k]);
  }
  top = cs::together(top, 32, cs::Larger<T>());
  for (int64_t k = lane; k < fanout; k += 32) {
    const T power = mask[k] ? exp(scores[k] - top) : T(0);
    scores[k] = power;
    total += power;
  }
  total = cs::together(total, 32, cs::Plus<T>());
  for (int64_t k = lane; k < fanout; k += 32) scores[k] = mask[k] ? scores[k] / total : T(0);
}

template <class T, int V>
__global__ void __launch_bounds__(kMost) slots_kernel(Slots<T> s, T* weights, T* out) {
  __shared__ Tile<T> tile;
  const int64_t t = blockIdx.x, first = t * s.fanout;
  T* const own = weights + t * s.heads * s.fanout;
  score<T, V>(s, t, s.query, own);
  for (int64_t h = threadIdx.x / 32; h < s.heads; h += blockDim.x / 32) settle(s.mask + first, s.fanout, own + h * s.fanout);
  const int64_t laid = s.width + s.edges, across = s.across();
  for (int64_t h = 0; h < s.heads; h += kHeads) {
    for (int64_t base = 0; base < across; base += blockDim.x * V) {
      const int64_t column = base + static_cast<int64_t>(threadIdx.x) * V;
      const Rates<T, V> rates(s, column);
      Pack<T, V> sums[kHeads] = {};
      for (int64_t from = 0; from < s.fanout; from += blockDim.x) {
        const int count = static_cast<int>(s.fanout - from < blockDim.x ? s.fanout - from : blockDim.x);
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < count) {
          const int64_t k = from + threadIdx.x;
          tile.lay(s, first + k);
#pragma unroll
          for (int i = 0; i < kHeads; ++i) {
            const int64_t at = (h + i) * s.fanout + k;
            const bool has = h + i < s.heads && s.mask[first + k];
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
              if (k + j < count && tile.mask[k + j]) x[j] = read<T, V>(s, first + from + k + j, tile.ids[k + j], column);
            }
#pragma unroll
            for (int j = 0; j < kAhead; ++j) {
              if (k + j >= count || !tile.mask[k + j]) continue;
#pragma unroll
              for (int i = 0; i < V; ++i) {
                sums[0].v[i] += tile.weights[0][k + j] * x[j].v[i];
                sums[1].v[i] += tile.weights[1][k + j] * x[j].v[i];
              }
            }
          }
        } else {
          for (int k = 0; k < count; ++k) {
            if (!tile.mask[k]) continue;
#pragma unroll
            for (int i = 0; i < V; ++i) {
              const T cosine = rates.turn(tile.elapsed[k], i).cosine;
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

}  // namespace

#define CS_DEFINE(kind, T)                                                                                   \
  int cs_cuda_slots_##kind(CS_SLOTS(T), T* weights, T* out, CS_CUDA_LAUNCH) {                                \
    return run(CS_OPERANDS(T), weights, out, {entries, counters, partial, cuts, cut_count, device, stream}); \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
