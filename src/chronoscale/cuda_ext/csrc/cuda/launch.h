// How CUDA calls report: a status for the caller, the cause for cs_cuda_last_error.
#pragma once

#include <cuda_runtime.h>

namespace cs {

int report(cudaError_t error);  // aggregate.cu

}  // namespace cs
