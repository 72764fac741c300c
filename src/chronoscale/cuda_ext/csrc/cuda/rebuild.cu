// The adjacency after a change, on a stream: a warp for each row. An entry's new place is its old one plus the signs of the
// changes before it, found by bisection, so that no entry waits for another.
#include "launch.h"

namespace {

using cs::kThreads;

struct Rebuild {
  int64_t rows;
  const int64_t* indptr;
  const int32_t* indices;
  const int32_t* slots;
  const int64_t* change_ptr;
  const int32_t* change;
  const int64_t* steps;
  const double* column;
  const double* row;
  const int64_t* out_ptr;
  int32_t* out_indices;
  float* out_values;
};

// The first of [begin, end) that is not below `id`.
__device__ int64_t bound(const int32_t* ids, int64_t begin, int64_t end, int32_t id) {
  while (begin < end) {
    const int64_t mid = (begin + end) / 2;
    if (ids[mid] < id) begin = mid + 1; else end = mid;
  }
  return begin;
}

__device__ void put(const Rebuild& r, int64_t at, int64_t begin, int64_t end, int32_t id, double scale) {
  if (at < begin || at >= end) return;
  r.out_indices[at] = id;
  if (r.out_values) r.out_values[at] = static_cast<float>(r.column[id] * scale);
}

__global__ void __launch_bounds__(kThreads) rebuild_kernel(Rebuild r) {
  const int64_t v = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (v >= r.rows) return;
  const int64_t first = r.indptr[v] + 1, last = r.indptr[v + 1], out = r.out_ptr[v] + 1, end = r.out_ptr[v + 1];
  const int64_t begin = r.out_ptr[v] < 0 ? 0 : r.out_ptr[v];
  const int32_t slot = r.slots[v];
  const int64_t from = slot < 0 ? 0 : r.change_ptr[slot], to = slot < 0 ? 0 : r.change_ptr[slot + 1];
  const double scale = r.row ? r.row[v] : 1.0;
  if (lane == 0) put(r, out - 1, begin, end, static_cast<int32_t>(v), scale);
  for (int64_t e = first + lane; e < last; e += 32) {
    const int32_t id = r.indices[e];
    const int64_t k = bound(r.change, from, to, id);
    if (k < to && r.change[k] == id) continue;  // removed
    put(r, out + (e - first) + (r.steps[k] - r.steps[from]), begin, end, id, scale);
  }
  for (int64_t k = from + lane; k < to; k += 32) {
    if (r.steps[k + 1] < r.steps[k]) continue;
    const int32_t id = r.change[k];
    put(r, out + (bound(r.indices, first, last, id) - first) + (r.steps[k] - r.steps[from]), begin, end, id, scale);
  }
}

}  // namespace

int cs_cuda_rebuild(int64_t rows, const int64_t* indptr, const int32_t* indices, const int32_t* slots,
                    const int64_t* change_ptr, const int32_t* change, const int64_t* steps, const double* column,
                    const double* row, const int64_t* out_ptr, int32_t* out_indices, float* out_values,
                    int device, void* stream) {
  const Rebuild r{rows, indptr, indices, slots, change_ptr, change, steps, column, row, out_ptr, out_indices, out_values};
  const bool fit = indptr && slots && change_ptr && steps && out_ptr && (!out_values || column);
  return cs::warps(r, fit, rebuild_kernel, device, stream);
}
