// What a GPU does not promise to survive, and the emulation has to name.
#include "probe.h"

namespace {

__global__ void never_reached(int* out) {
  if (threadIdx.x >= 3) __syncthreads();
  out[0] = 1;
}

__global__ void two_places(int* out) {
  if (threadIdx.x % 2) {
    __syncthreads();
  } else {
    __syncthreads();  // another line
  }
  out[0] = 1;
}

__global__ void exited_lane(int* out) {
  if (threadIdx.x == 7) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}

__global__ void other_mask(int* out) {
  out[threadIdx.x] = __shfl_down_sync(threadIdx.x < 8 ? 0x0000ffffu : 0xffffffffu, 1, 1);
}

__global__ void without_itself(int* out) { out[threadIdx.x] = __ballot_sync(0xffu, 1); }

__global__ void other_place(int* out) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __any_sync(0xffffffffu, 1);
  } else {
    out[threadIdx.x] = __any_sync(0xffffffffu, 0);
  }
}

__global__ void warp_and_barrier(int* out) {
  if (threadIdx.x == 0) __syncthreads(); else __syncwarp();
  out[threadIdx.x] = 1;
}

__global__ void endless(int* out) {
  while (atomicAdd(out, 0) == 0) {}
}

__global__ void too_much(int* out) {
  __shared__ double much[7000];
  much[threadIdx.x] = 1;
  out[0] = static_cast<int>(much[0]);
}

}  // namespace

PROBE fault(int which, int threads, int* out) {
  void (*const kernels[])(int*) = {never_reached, two_places, exited_lane, other_mask, without_itself, other_place, warp_and_barrier, endless, too_much};
  return start(kernels[which], 3, threads, 0, out);
}
