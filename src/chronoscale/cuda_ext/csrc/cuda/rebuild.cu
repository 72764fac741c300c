// Rebuild of an adjacency after a change on a CUDA stream (cs_cuda_rebuild). An entry's new place is its old one plus the signs of the
// changes before it, found by bisection, so that no entry waits for another: the entries of long rows are spread over blocks, and so are
// the changes.
#include "pieces.cuh"

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
  int64_t changes, changed_rows;
  const int32_t* targets;
  int64_t out_entries;
  int32_t* unfit;
  const int32_t* cuts;
};

// Returns the first position in [begin, end) whose id is not below `id`, by bisection.
__device__ int64_t bound(const int32_t* ids, int64_t begin, int64_t end, int32_t id) {
  while (begin < end) {
    const int64_t mid = (begin + end) / 2;
    if (ids[mid] < id) begin = mid + 1; else end = mid;
  }
  return begin;
}

// Writes entry `at`, of row v, if there is such a place; else the change does not belong to the adjacency.
__device__ void put(const Rebuild& r, int64_t v, int64_t at, int32_t id) {
  if (at < 0 || at >= r.out_entries) {
    *r.unfit = 1;
    return;
  }
  r.out_indices[at] = id;
  if (r.out_values) r.out_values[at] = static_cast<float>(r.column[id] * (r.row ? r.row[v] : 1.0));
}

// Copies old entry e of row v, whose changes are [from, to), unless it is removed.
__device__ void keep(const Rebuild& r, int64_t v, int64_t e, int64_t from, int64_t to) {
  const int32_t id = r.indices[e];
  const int64_t first = r.indptr[v], k = e == first ? from : bound(r.change, from, to, id);  // the self-loop comes first
  if (e == first ? id != v : e > first + 1 && r.indices[e - 1] >= id) *r.unfit = 1;
  if (e > first && k < to && r.change[k] == id && r.steps[k + 1] < r.steps[k]) return;       // removed
  put(r, v, r.out_ptr[v] + (e - first) + (r.steps[k] - r.steps[from]), id);
}

// Applies change k: an edge to add must be absent, one to remove must be present.
__device__ void apply(const Rebuild& r, int64_t k) {
  int64_t slot = 0, beyond = r.changed_rows;  // change_ptr[slot] <= k < change_ptr[beyond]
  while (beyond - slot > 1) {
    const int64_t mid = (slot + beyond) / 2;
    if (r.change_ptr[mid] <= k) slot = mid; else beyond = mid;
  }
  const int64_t v = r.targets[slot], first = r.indptr[v] + 1, last = r.indptr[v + 1];
  const int32_t id = r.change[k];
  const int64_t place = bound(r.indices, first, last, id);
  const bool there = place < last && r.indices[place] == id, added = r.steps[k + 1] > r.steps[k];
  if (there == added) *r.unfit = 1;
  if (added) put(r, v, r.out_ptr[v] + (place - first) + 1 + (r.steps[k] - r.steps[r.change_ptr[slot]]), id);
}

__global__ void __launch_bounds__(kThreads) rebuild_kernel(Rebuild r, int lanes, int64_t entries, int64_t pieces, int64_t short_blocks) {
  if (blockIdx.x < pieces) {
    return cs::long_rows(blockIdx.x, r.cuts, r.rows, r.indptr, entries, nullptr, [&](const cs::Part& part) {
      const int32_t slot = r.slots[part.row];
      const int64_t from = slot < 0 ? 0 : r.change_ptr[slot], to = slot < 0 ? 0 : r.change_ptr[slot + 1];
      for (int64_t e = part.begin + threadIdx.x; e < part.end; e += kThreads) keep(r, part.row, e, from, to);
    });
  }
  if (blockIdx.x >= pieces + short_blocks) {
    const int64_t k = (blockIdx.x - pieces - short_blocks) * kThreads + threadIdx.x;
    if (k < r.changes) apply(r, k);
    return;
  }
  const int64_t v = (blockIdx.x - pieces) * (kThreads / lanes) + threadIdx.x / lanes;
  if (v == 0 && threadIdx.x == 0 && r.out_ptr[r.rows] != r.out_entries) *r.unfit = 1;
  if (v >= r.rows) return;
  const int64_t first = r.indptr[v], last = r.indptr[v + 1];
  if (last == first) *r.unfit = 1;  // a row holds its self-loop at least
  if (last - first >= cs::kPiece) return;
  const int32_t slot = r.slots[v];
  const int64_t from = slot < 0 ? 0 : r.change_ptr[slot], to = slot < 0 ? 0 : r.change_ptr[slot + 1];
  for (int64_t e = first + threadIdx.x % lanes; e < last; e += lanes) keep(r, v, e, from, to);
}

}  // namespace

int cs_cuda_rebuild(int64_t rows, const int64_t* indptr, const int32_t* indices, const int32_t* slots,
                    const int64_t* change_ptr, const int32_t* change, const int64_t* steps, const double* column,
                    const double* row, const int64_t* out_ptr, int32_t* out_indices, float* out_values, int64_t changes,
                    int64_t changed_rows, const int32_t* targets, int64_t out_entries, int32_t* unfit, CS_CUDA_LAUNCH) {
  if (rows < 0 || changes < 0 || changed_rows < 0 || out_entries < 0 || entries < 0 || rows > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (rows == 0) return CS_OK;
  if (!indptr || !indices || !slots || !change_ptr || !steps || !out_ptr || !unfit || (out_values && !column)) return CS_ERROR_ARGUMENT;
  if ((out_entries > 0 && !out_indices) || (changes > 0 && (!change || !targets || changed_rows == 0))) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return cs::report(error);
  const Rebuild r{rows, indptr, indices, slots, change_ptr, change, steps, column, row, out_ptr, out_indices, out_values,
                  changes, changed_rows, targets, out_entries, unfit, cuts};
  const int lanes = cs::lanes_for(entries, rows);
  const int64_t pieces = cs::pieces_of(cs::Launch{entries, counters, partial, cuts, cut_count, device, stream}), short_blocks = cs::blocks_for(rows, lanes, 0);
  const int64_t change_blocks = (changes + kThreads - 1) / kThreads;
  rebuild_kernel<<<static_cast<unsigned>(pieces + short_blocks + change_blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      r, lanes, entries, pieces, short_blocks);
  return cs::report(cudaGetLastError());
}
