// The C ABI of chronoscale's native kernels. No torch, no Python: pointers, sizes, and a status.
//
// Dense matrices are row-major. A sparse matrix is CSR: indptr [rows + 1] (indptr[0] == 0), indices [nnz],
// values [nnz] or null for all ones. Ids are trusted: the caller checks them (graph.CSR.check).
#pragma once

#include <stdint.h>

#define CS_ABI_VERSION 1
#define CS_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum cs_status {
  CS_OK = 0,
  CS_ERROR_ARGUMENT = 1,     // a size is negative or a needed pointer is null
  CS_ERROR_MEMORY = 2,       // scratch memory could not be had
  CS_ERROR_UNAVAILABLE = 3,  // no driver, or no device (CUDA library only)
  CS_ERROR_DEVICE = 4        // the launch failed (CUDA library only); see cs_cuda_last_error
};

// ---- libchronoscale_cpu ----

CS_API int cs_version(void);
CS_API const char* cs_instruction_set(void);  // "avx512f", "avx2" or "baseline"
CS_API int cs_set_threads(int threads);       // >= 1; how many threads one call may use
CS_API int cs_get_threads(void);

// out[v, :] = sum over e in [indptr[v], indptr[v+1]) of values[e] * x[indices[e], :]
CS_API int cs_aggregate_f32(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values,
                            const float* x, int64_t width, float* out);
CS_API int cs_aggregate_f64(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values,
                            const double* x, int64_t width, double* out);

// For each r: sums[targets[r], :] += (the sum above for row r), and touched[r, :] = the new sums[targets[r], :].
// targets are distinct.
CS_API int cs_increment_f32(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices,
                            const float* values, const float* x, int64_t width, float* sums, float* touched);
CS_API int cs_increment_f64(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices,
                            const float* values, const double* x, int64_t width, double* sums, double* touched);

// REAL, Algorithm 1 (REAL-G). reuse[i * width + k] is what is saved when groups i and i + k + 1 share a GPU.
// max_targets 0 tries every target; otherwise that many, evenly spaced in rank. threads 0: as cs_set_threads.
CS_API int cs_greedy(int64_t groups, const double* times, int64_t width, const double* reuse, int64_t gpus,
                     int64_t max_targets, int threads, int32_t* out_iteration, int32_t* out_gpu, int32_t* out_slot);

// Most weight of a matching of n groups in a row of which those up to `width` apart may pair: weight[i * width + k] for groups i and
// i + k + 1. out_mate[i]: the partner, -1 for none. width <= 12: 2^width states a group.
CS_API int cs_band_matching(int64_t n, int64_t width, const double* weight, int32_t* out_mate, double* out_total);

// REAL-G+: exchanges partners, splits and joins pairs of `mate` (-1: alone) until `work` is used up; the best matching met is left in
// `mate`. Moves are compared by makespan (alpha an iteration) + pull * total load / gpus; one that worsens that by up to `threshold`,
// falling to 0, is taken.
CS_API int cs_exchange(int64_t n, const double* times, int64_t width, const double* reuse, int64_t gpus, double alpha,
                       double pull, double threshold, int64_t work, uint64_t seed, int32_t* mate, double* out_makespan);

// ---- libchronoscale_cuda ---- the same, enqueued on a stream of a device: no allocation, no synchronisation.

CS_API int cs_cuda_version(void);
CS_API int cs_cuda_available(void);           // CS_OK when a driver and a device are there
CS_API const char* cs_cuda_last_error(void);  // of the calling thread

CS_API int cs_cuda_aggregate_f32(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values,
                                 const float* x, int64_t width, float* out, int device, void* stream);
CS_API int cs_cuda_aggregate_f64(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values,
                                 const double* x, int64_t width, double* out, int device, void* stream);
CS_API int cs_cuda_increment_f32(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices,
                                 const float* values, const float* x, int64_t width, float* sums, float* touched,
                                 int device, void* stream);
CS_API int cs_cuda_increment_f64(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices,
                                 const float* values, const double* x, int64_t width, double* sums, double* touched,
                                 int device, void* stream);

#ifdef __cplusplus
}
#endif
