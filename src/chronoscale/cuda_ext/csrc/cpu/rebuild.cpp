// Rebuild of an adjacency after a change (cs_rebuild): every row is merged with its changes, blocks of rows are tasks. O(entries +
// changes).
#include <algorithm>
#include <atomic>

#include "pool.h"

namespace {

constexpr int64_t kBlock = 2048;                  // rows of one task
constexpr int64_t kWorthHelp = int64_t{1} << 15;  // entries

}  // namespace

int cs_rebuild(int64_t rows, const int64_t* indptr, const int32_t* indices, const int32_t* slots,
               const int64_t* change_ptr, const int32_t* change, const int64_t* steps, const double* column,
               const double* row, const int64_t* out_ptr, int32_t* out_indices, float* out_values) {
  if (rows < 0) return CS_ERROR_ARGUMENT;
  if (rows == 0) return CS_OK;
  if (!indptr || !indices || !slots || !change_ptr || !steps || !out_ptr || !out_indices) return CS_ERROR_ARGUMENT;
  if (out_values && !column) return CS_ERROR_ARGUMENT;
  std::atomic<bool> fits{true};
  auto body = [&](int64_t block, int) {
    for (int64_t v = block * kBlock; v < std::min(rows, (block + 1) * kBlock); ++v) {
      if (out_ptr[v] < 0 || out_ptr[v + 1] > out_ptr[rows]) {  // removals that are not there
        fits = false;
        continue;
      }
      const int32_t* old = indices + indptr[v];
      const int32_t* const old_end = indices + indptr[v + 1];
      int32_t *out = out_indices + out_ptr[v], *const out_end = out_indices + out_ptr[v + 1];
      if (old == old_end || *old != v || out >= out_end) {  // a row holds its self-loop at least
        fits = false;
        continue;
      }
      *out++ = *old++;
      const int32_t slot = slots[v];
      if (slot >= 0) {
        for (int64_t k = change_ptr[slot]; k < change_ptr[slot + 1]; ++k) {
          while (old < old_end && out < out_end && *old < change[k]) *out++ = *old++;
          const bool there = old < old_end && *old == change[k], added = steps[k + 1] > steps[k];
          if (there == added || (added && out == out_end)) fits = false;
          else if (added) *out++ = change[k];
          else ++old;
        }
      }
      if (old_end - old != out_end - out) {
        fits = false;
        continue;
      }
      out = std::copy(old, old_end, out);
      if (!out_values) continue;
      const double scale = row ? row[v] : 1.0;
      for (int64_t e = out_ptr[v]; e < out_ptr[v + 1]; ++e) out_values[e] = static_cast<float>(column[out_indices[e]] * scale);
    }
  };
  return cs::guarded([&] {
    cs::parallel((rows + kBlock - 1) / kBlock, out_ptr[rows] < kWorthHelp ? 1 : cs::threads(), body);
    return fits ? CS_OK : CS_ERROR_ARGUMENT;
  });
}
