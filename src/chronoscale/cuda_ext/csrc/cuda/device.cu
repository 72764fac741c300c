// What the library reports of itself and of the device.
#include "pieces.cuh"

namespace {

thread_local cudaError_t last = cudaSuccess;

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

}  // namespace

int cs::report(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();  // clear it: the next call's check is its own
  last = error;
  return status(error);
}

int cs_cuda_version(void) { return CS_ABI_VERSION; }

int cs_cuda_piece(void) { return cs::kPiece; }

int cs_cuda_available(void) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices == 0) return cs::report(cudaErrorNoDevice);
  return cs::report(error);
}

const char* cs_cuda_last_error(void) { return cudaGetErrorString(last); }
