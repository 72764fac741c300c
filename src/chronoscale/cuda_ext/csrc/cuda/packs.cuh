// Numbers that lie side by side in a row and are read, added and written together.
#pragma once

#include "launch.h"

namespace cs {

template <class T, int V>
struct alignas(V * sizeof(T)) Pack {
  T v[V];

  __device__ void add(const Pack& other) {
#pragma unroll
    for (int i = 0; i < V; ++i) v[i] += other.v[i];
  }
};

template <class T, int V>
__device__ Pack<T, V>& at(T* from) { return *reinterpret_cast<Pack<T, V>*>(from); }

template <class T, int V>
__device__ const Pack<T, V>& at(const T* from) { return *reinterpret_cast<const Pack<T, V>*>(from); }

// Returns the sum of the values of a block's groups, valid in group 0.
template <class T, int V>
__device__ Pack<T, V> of_groups(Pack<T, V> acc, int lanes) {
  __shared__ Pack<T, V> shares[kThreads];
  shares[threadIdx.x] = acc;
  for (int half = kThreads / 2; half >= lanes; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) shares[threadIdx.x].add(shares[threadIdx.x + half]);
  }
  acc = shares[threadIdx.x];
  __syncthreads();
  return acc;
}

// Whether rows of `width` numbers from `pointer` on can be read V at a time.
template <int V, class T>
bool fits(const T* pointer, int64_t width) { return width % V == 0 && reinterpret_cast<uintptr_t>(pointer) % (V * sizeof(T)) == 0; }

}  // namespace cs
