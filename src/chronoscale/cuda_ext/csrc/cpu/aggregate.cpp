// Sparse times dense, and its in-place increment, shared out by merge path (Merrill and Garland, SC 2016): the rows'
// ends and the edges form one sequence, cut into equal chunks. A hub is cut like anything else, and an empty row
// costs what writing it costs. The cuts depend only on the graph, so results do not depend on the number of threads.
#include <algorithm>
#include <memory>

#include "kernels.h"
#include "pool.h"

namespace {

using cs::Chunk;
using cs::Rows;

constexpr int64_t kElements = 1 << 17;     // numbers read or written by one chunk, roughly
constexpr int64_t kWorthHelp = int64_t{1} << 19;  // below this a helper wakes too late to be of use
constexpr int64_t kNumbers = int64_t{1} << 59;    // of scratch memory: their bytes fit 64 bits

cs::Isa detect() {
  using cs::Isa;
#ifdef CS_X86_KERNELS
  if (__builtin_cpu_supports("avx512f")) return Isa::avx512f;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
  return Isa::baseline;
}

template <class T, class X>
int sum(const Rows<T, X>& r) {
  const int64_t rows = r.rows, items = rows + r.indptr[rows];
  const int64_t length = std::clamp<int64_t>(kElements / r.width, 512, 8192);
  const int64_t chunks = (items + length - 1) / length;
  if (chunks > kNumbers / r.width) return CS_ERROR_MEMORY;
  std::unique_ptr<T[]> carries(new T[chunks * r.width]);

  const auto chunk = [&](int64_t k) {
    const int64_t from = k * length, to = std::min(items, from + length);
    const int64_t row = cs::row_at(r.indptr, rows, from), row_end = cs::row_at(r.indptr, rows, to);
    return Chunk{row, row_end, from - row, to - row_end};
  };
  auto body = [&](int64_t k, int) { CS_CALL(rows, r, chunk(k), carries.get() + k * r.width); };
  cs::parallel(chunks, items < kWorthHelp / r.width ? 1 : cs::threads(), body);

  for (int64_t k = 1; k < chunks; ++k) {
    const Chunk c = chunk(k);
    if (c.edge == r.indptr[c.row]) continue;
    T* const out = r.out + c.row * r.width;
    for (int64_t f = 0; f < r.width; ++f) out[f] += carries[k * r.width + f];
    if (r.sums) std::copy_n(out, r.width, r.sums + r.targets[c.row] * r.width);
  }
  return CS_OK;
}

template <class T, class X>
int run(const Rows<T, X>& r) {
  if (r.rows < 0 || r.width < 0) return CS_ERROR_ARGUMENT;
  if (r.rows == 0 || r.width == 0) return CS_OK;
  if (!r.indptr || !r.out || (r.targets && !r.sums)) return CS_ERROR_ARGUMENT;
  if (r.indptr[r.rows] > 0 && (!r.indices || !r.x)) return CS_ERROR_ARGUMENT;
  return sum(r);
}

}  // namespace

const cs::Isa cs::isa = detect();

int cs::sum_rows(const Rows<float>& r) { return sum(r); }
int cs::sum_rows(const Rows<double>& r) { return sum(r); }

const char* cs_instruction_set(void) {
  return cs::isa == cs::Isa::avx512f ? "avx512f" : cs::isa == cs::Isa::avx2 ? "avx2" : "baseline";
}

#define CS_DEFINE(kind, T, X)                                                                                            \
  int cs_aggregate_##kind(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values, const X* x,  \
                          int64_t width, T* out) {                                                                       \
    const Rows<T, X> r{rows, indptr, indices, values, nullptr, x, width, out, nullptr, nullptr, nullptr};                \
    return cs::guarded([&] { return run(r); });                                                                          \
  }                                                                                                                      \
  int cs_increment_##kind(int64_t rows, const int32_t* targets, const uint8_t* fresh, const int64_t* indptr,             \
                          const int32_t* indices, const float* values, const X* x, int64_t width, T* sums, T* touched) { \
    if (rows > 0 && !targets) return CS_ERROR_ARGUMENT;                                                                  \
    const Rows<T, X> r{rows, indptr, indices, values, nullptr, x, width, touched, targets, fresh, sums};                 \
    return cs::guarded([&] { return run(r); });                                                                          \
  }
CS_DEFINE(f32, float, float)
CS_DEFINE(f64, double, double)
CS_DEFINE(bf16, float, uint16_t)
#undef CS_DEFINE

int cs_weigh_f64(int64_t rows, const int64_t* indptr, const int32_t* indices, const double* weights, const double* x,
                 int64_t width, double* out) {
  const Rows<double> r{rows, indptr, indices, nullptr, weights, x, width, out, nullptr, nullptr, nullptr};
  return cs::guarded([&] { return run(r); });
}
