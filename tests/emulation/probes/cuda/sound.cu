// What kernels may rely on.
#include "probe.h"

namespace {

// Every group of `lanes` goes its own number of rounds, with its own mask: out[thread] = the sum over the group's thread numbers.
__global__ void groups(int lanes, int* out) {
  const int thread = threadIdx.x, lane = thread % 32, group = lane / lanes;
  const unsigned mask = (lanes == 32 ? 0xffffffffu : (1u << lanes) - 1) << (group * lanes);
  int sum = thread;
  for (int round = 0; round <= group; ++round) {
    sum = thread;
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(mask, sum, step, lanes);
    __syncwarp(mask);
  }
  out[thread] = sum;
}

__global__ void shuffles(int width, double* out) {
  const unsigned all = 0xffffffffu;
  const int lane = threadIdx.x;
  out[lane] = __shfl_sync(all, lane + 0.5, 5, width);
  out[32 + lane] = __shfl_up_sync(all, lane, 3, width);
  out[64 + lane] = __shfl_down_sync(all, static_cast<long long>(lane), 3, width);
  out[96 + lane] = __shfl_xor_sync(all, static_cast<float>(lane), 6, width);
  out[160 + lane] = __shfl_xor_sync(all, lane, 12, width);
  out[128 + lane] = __shfl_sync(all, static_cast<unsigned char>(lane), 40, width);
}

__global__ void votes(int* out) {
  const unsigned odd = 0xaaaaaaaau;
  const int t = threadIdx.x;
  if (t % 2) {
    out[t] = __ballot_sync(odd, t > 20) | __any_sync(odd, t == 31) | __all_sync(odd, t > 0) << 2 | __all_sync(odd, t > 1) << 4;
  } else {
    out[t] = __reduce_add_sync(~odd, t);
  }
  const int over = __syncthreads_count(t > 10), none = __syncthreads_or(t > 31), some = __syncthreads_or(t == 3);
  const int most = __syncthreads_and(t < 31), each = __syncthreads_and(t < 32);
  if (t == 0) out[32] = over * 10000 + none * 1000 + some * 100 + most * 10 + each;
}

struct alignas(16) Pair {
  double a, b;
};

// The last block to finish adds up what all have left: the order of the sum is that of the blocks.
template <class T, int N>
__global__ void __launch_bounds__(N) last_block(const T* __restrict__ in, T* parts, unsigned* count, T* out) {
  __shared__ Pair partial[N];
  __shared__ bool last;
  const int t = threadIdx.x;
  partial[t] = {static_cast<double>(__ldg(in + blockIdx.x * N + t)), 0};
  __syncthreads();
  for (int step = N / 2; step > 0; step /= 2) {
    if (t < step) partial[t].a += partial[t + step].a;
    __syncthreads();
  }
  if (t == 0) {
    parts[blockIdx.x] = static_cast<T>(partial[0].a);
    __threadfence();
    last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || t) return;
  T sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += parts[b];
  *out = sum;
}

// A block's first look at its shared memory: never what a block before has left there.
__global__ void leftovers(int* out) {
  __shared__ int one[64];
  __shared__ alignas(32) short other[2][33];
  extern __shared__ int asked[];
  const int t = threadIdx.x;
  const bool leaked = one[t] != -1 || other[1][t % 33] != -1 || asked[t] != -1 || reinterpret_cast<size_t>(other) % 32;
  atomicMax(out, static_cast<int>(leaked));
  __syncthreads();
  one[t] = asked[t] = t;
  other[1][t % 33] = static_cast<short>(t);
}

__global__ void atomics(int* i, unsigned long long* u, float* f, double* d) {
  const int t = threadIdx.x + blockIdx.x * blockDim.x;
  atomicAdd(i, 2);
  atomicMin(i + 1, t);
  atomicMax(i + 2, t);
  atomicOr(i + 3, 1 << (t % 31));
  for (int held = 1; held;) {  // a lock
    if (atomicCAS(i + 4, 0, 1)) continue;
    i[5] += 1;
    __threadfence();
    atomicExch(i + 4, 0);
    held = 0;
  }
  atomicAdd(u, 1u << 31);
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
}

__global__ void halves(const unsigned short* raw, float* out, const float* given, unsigned short* rounded) {
  const int t = threadIdx.x;
  out[t] = __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(raw)[t]);
  rounded[t] = __bfloat16_as_ushort(__float2bfloat16(given[t]));
}

// As last_block, but a block counts itself before all of it has arrived: wrong where the last one meets another half done.
__global__ void counted_early(unsigned* parts, unsigned* count, unsigned* out) {
  const unsigned threads = blockDim.x, arrived = threadIdx.x == 0 ? atomicInc(count, gridDim.x - 1) : 0;
  atomicAdd(parts + blockIdx.x, 1);
  if (!__syncthreads_or(arrived == gridDim.x - 1)) return;
  for (unsigned b = 0; threadIdx.x == 0 && b < gridDim.x; ++b) *out += parts[b] == threads;
}

// Each block takes two numbers; order[number] is the block's.
__global__ void numbered(int* order, int* next) {
  for (int i = 0; i < 2; ++i) order[atomicAdd(next, 1)] = static_cast<int>(blockIdx.x);
}

}  // namespace

PROBE probe_groups(int lanes, int threads, int* out) { return start(groups, 1, threads, 0, lanes, out); }
PROBE probe_shuffles(int width, double* out) { return start(shuffles, 1, 32, 0, width, out); }
PROBE probe_votes(int* out) { return start(votes, 1, 32, 0, out); }
PROBE probe_last_block(const double* in, int blocks, double* parts, unsigned* count, double* out) {
  last_block<double, 64><<<static_cast<unsigned>(blocks), 64>>>(in, parts, count, out);
  return cudaGetLastError();
}
PROBE probe_leftovers(int* out) { return start(leftovers, 20, 64, 256, out); }
PROBE probe_atomics(int* i, unsigned long long* u, float* f, double* d) { return start(atomics, 5, 96, 0, i, u, f, d); }
PROBE probe_halves(const unsigned short* raw, float* out, const float* given, unsigned short* rounded) {
  return start(halves, 1, 64, 0, raw, out, given, rounded);
}
PROBE probe_counted_early(unsigned* parts, unsigned* count, unsigned* out) { return start(counted_early, 9, 64, 0, parts, count, out); }
PROBE probe_numbered(int* order, int* next) { return start(numbered, 50, 1, 0, order, next); }
