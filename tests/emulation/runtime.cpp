// The runtime's calls about the device, its memory and its errors.
#include <string>

#include "cuda_runtime.h"

namespace {

constexpr int kDevices = 1;
thread_local cudaError_t pending = cudaSuccess;
thread_local std::string failure;
cudaError_t refused = cudaSuccess;

cudaError_t known(int device) { return device >= 0 && device < kDevices ? cudaSuccess : cudaErrorInvalidDevice; }

}  // namespace

void emu::set_error(cudaError_t error, const char* text) {
  pending = error;
  failure = text;
}

cudaError_t emu::refusal() { return refused; }

// From here on every launch, and every question about a kernel, fails with this error of CUDA's; 0: no longer.
extern "C" __attribute__((visibility("default"))) void emu_refuse(int error) { refused = static_cast<cudaError_t>(error); }

cudaError_t cudaPeekAtLastError() { return pending; }

cudaError_t cudaGetLastError() {
  const cudaError_t error = pending;
  pending = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorNoKernelImageForDevice: return "cudaErrorNoKernelImageForDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    default: return "another error of CUDA";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorLaunchFailure: return failure.c_str();
    default: return "another error of CUDA";
  }
}

cudaError_t cudaGetDeviceCount(int* count) { return *count = kDevices, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return known(device); }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {"emulated", 9, 0, 132, 32, 1024, 2048, 50 << 20, size_t{80} << 30, 48 << 10};
  return known(device);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: return *value = p.maxThreadsPerBlock, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock: return *value = static_cast<int>(p.sharedMemPerBlock), cudaSuccess;
    case cudaDevAttrWarpSize: return *value = p.warpSize, cudaSuccess;
    case cudaDevAttrMultiProcessorCount: return *value = p.multiProcessorCount, cudaSuccess;
    case cudaDevAttrL2CacheSize: return *value = p.l2CacheSize, cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return *value = p.maxThreadsPerMultiProcessor, cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: return *value = p.major, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: return *value = p.minor, cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t cudaMemsetAsync(void* at, int byte, size_t count, cudaStream_t) {
  if (count) memset(at, byte, count);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t count, cudaMemcpyKind, cudaStream_t) {
  if (count) memmove(to, from, count);
  return cudaSuccess;
}
