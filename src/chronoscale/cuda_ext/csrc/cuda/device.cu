// Queries of toolkit, driver and devices, and the error of the last call. None creates a context on a device, and so none takes its memory.
#include <cuda_runtime.h>

#include <cstdio>

#include "../common/chronoscale.h"
#include "pieces.cuh"

#ifndef CS_ARCHITECTURES
#define CS_ARCHITECTURES ""
#endif

namespace {

int status(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return CS_OK;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch: return CS_ERROR_UNAVAILABLE;
    default: return CS_ERROR_DEVICE;
  }
}

thread_local cudaError_t last = cudaSuccess;

}  // namespace

int cs::report(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();  // clear it: the next call's check is its own
  last = error;
  return status(error);
}

using cs::report;

int cs_cuda_version(void) { return CS_ABI_VERSION; }

int cs_cuda_piece(void) { return cs::kPiece; }

int cs_cuda_available(void) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices == 0) return report(cudaErrorNoDevice);
  return report(error);
}

const char* cs_cuda_last_error(void) { return cudaGetErrorString(last); }

const char* cs_cuda_architectures(void) { return CS_ARCHITECTURES; }

int cs_cuda_toolkit(void) { return CUDART_VERSION; }

int cs_cuda_driver(void) {
  int version = 0;
  return report(cudaDriverGetVersion(&version)) == CS_OK ? version : 0;
}

int cs_cuda_device(int device, int* capability, char* name, int64_t size) {
  if (!capability || !name || size < 1) return CS_ERROR_ARGUMENT;
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) return report(error);
  if (device < 0 || device >= devices) return CS_ERROR_ARGUMENT;
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) return report(error);
  *capability = 10 * properties.major + properties.minor;
  std::snprintf(name, static_cast<size_t>(size), "%s", properties.name);
  return CS_OK;
}
