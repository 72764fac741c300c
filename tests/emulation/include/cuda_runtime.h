// The part of CUDA that kernels use, and of its runtime that the library does. What is not here does not compile.
#pragma once

#include <math.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "../emulator.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) alignas(n)
#define __launch_bounds__(...)

#define threadIdx (emu::here->thread)
#define blockIdx (emu::here->block)
#define blockDim (emu::block_dim)
#define gridDim (emu::grid_dim)
constexpr int warpSize = 32;

// ---- vectors and arithmetic ----

#define EMU_VECTORS(name, T)                                  \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; };          \
  struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; }; \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }  \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMU_VECTORS(float, float)
EMU_VECTORS(double, double)
EMU_VECTORS(int, int)
EMU_VECTORS(uint, unsigned)
EMU_VECTORS(longlong, long long)
#undef EMU_VECTORS

template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) { return static_cast<std::common_type_t<A, B>>(b < a ? b : a); }
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) { return static_cast<std::common_type_t<A, B>>(a < b ? b : a); }

inline float __expf(float x) { return expf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }

template <class To, class From>
To emu_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
inline unsigned __float_as_uint(float x) { return emu_bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return emu_bits<float>(x); }
inline int __float_as_int(float x) { return emu_bits<int>(x); }
inline float __int_as_float(int x) { return emu_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emu_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emu_bits<double>(x); }

template <class T>
T __ldg(const T* at) { return *at; }

// ---- barriers, warps ----

#define EMU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(EMU_HERE) { emu::barrier(emu::Vote::none, false, {file, line}); }
inline int __syncthreads_or(int yes, EMU_HERE) { return emu::barrier(emu::Vote::any, yes, {file, line}); }
inline int __syncthreads_and(int yes, EMU_HERE) { return emu::barrier(emu::Vote::all, yes, {file, line}); }
inline int __syncthreads_count(int yes, EMU_HERE) { return emu::barrier(emu::Vote::count, yes, {file, line}); }

inline void __syncwarp(unsigned mask = 0xffffffffu, EMU_HERE) {
  emu::Exchange e{emu::Exchange::sync, "__syncwarp", {file, line}, mask};
  emu::exchange(e);
}

template <class T>
T emu_exchange(emu::Exchange e, T value) {
  static_assert(sizeof(T) <= sizeof e.value);
  e.size = sizeof value;
  memcpy(e.value, &value, sizeof value);
  emu::exchange(e);
  memcpy(&value, e.value, sizeof value);
  return value;
}

#define EMU_VOTE(name, kind, R, A) \
  inline R name(unsigned mask, A value, EMU_HERE) { return static_cast<R>(emu_exchange<A>({emu::Exchange::kind, #name, {file, line}, mask}, value)); }
EMU_VOTE(__any_sync, any, int, int)
EMU_VOTE(__all_sync, all, int, int)
EMU_VOTE(__ballot_sync, ballot, unsigned, int)
EMU_VOTE(__reduce_add_sync, sum, int, int)
#undef EMU_VOTE

// As CUDA's overloads: what is narrower than an int is shuffled as one.
template <class T>
using Shuffled = std::conditional_t<std::is_integral_v<T> && (sizeof(T) < 4), int, T>;

#define EMU_SHUFFLE(name, kind, A)                                                                               \
  template <class T>                                                                                             \
  Shuffled<T> name(unsigned mask, T value, A argument, int width = 32, EMU_HERE) {                               \
    emu::Exchange e{emu::Exchange::kind, #name, {file, line}, mask};                                             \
    e.argument = static_cast<int>(argument), e.width = width;                                                    \
    return emu_exchange<Shuffled<T>>(e, value);                                                                  \
  }
EMU_SHUFFLE(__shfl_sync, index, int)
EMU_SHUFFLE(__shfl_up_sync, up, unsigned)
EMU_SHUFFLE(__shfl_down_sync, down, unsigned)
EMU_SHUFFLE(__shfl_xor_sync, bits, int)
#undef EMU_SHUFFLE

// ---- memory: fibers run one at a time, so an atomic need only let others go first ----

inline void __threadfence() { emu::yield(); }
inline void __threadfence_block() { emu::yield(); }
inline void __threadfence_system() { emu::yield(); }

#define EMU_ATOMIC(name, T, result)                  \
  template <class T>                                 \
  T name(T* at, std::common_type_t<T> given) {       \
    emu::yield();                                    \
    const T old = *at;                               \
    *at = static_cast<T>(result);                    \
    return old;                                      \
  }
EMU_ATOMIC(atomicAdd, T, old + given)
EMU_ATOMIC(atomicSub, T, old - given)
EMU_ATOMIC(atomicExch, T, given)
EMU_ATOMIC(atomicMin, T, given < old ? given : old)
EMU_ATOMIC(atomicMax, T, old < given ? given : old)
EMU_ATOMIC(atomicAnd, T, old & given)
EMU_ATOMIC(atomicOr, T, old | given)
EMU_ATOMIC(atomicXor, T, old ^ given)
EMU_ATOMIC(atomicInc, T, old >= given ? 0 : old + 1)
EMU_ATOMIC(atomicDec, T, old == 0 || old > given ? given : old - 1)
#undef EMU_ATOMIC

template <class T>
T atomicCAS(T* at, std::common_type_t<T> expected, std::common_type_t<T> given) {
  emu::yield();
  const T old = *at;
  if (old == expected) *at = given;
  return old;
}

// ---- runtime: one device, like an H100 ----

#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
  cudaErrorSystemDriverMismatch = 803,
  cudaErrorUnknown = 999,
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };

struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount, warpSize, maxThreadsPerBlock, maxThreadsPerMultiProcessor, l2CacheSize;
  size_t totalGlobalMem, sharedMemPerBlock;
};
struct cudaFuncAttributes {
  int binaryVersion, ptxVersion, maxThreadsPerBlock, numRegs;
  size_t sharedSizeBytes, localSizeBytes;
};
typedef struct CUstream_st* cudaStream_t;

namespace emu {
void set_error(cudaError_t error, const char* text = "");
cudaError_t refusal();  // what emu_refuse asked for
}

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaMemsetAsync(void* at, int byte, size_t count, cudaStream_t stream = nullptr);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t count, cudaMemcpyKind kind, cudaStream_t stream = nullptr);

template <class T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T*) {
  if (emu::refusal() != cudaSuccess) return emu::refusal();
  *attributes = {90, 90, 1024, 32, 0, 0};
  return cudaSuccess;
}
