// Products of dense matrices, strips of rows shared out. A number of C is summed by one thread in the order of its depth: results do not
// depend on the number of threads, nor a row of C on the other rows.
#include <algorithm>
#include <memory>

#include "dense.h"
#include "pool.h"

namespace {

using cs::kDepth;
using cs::kStrip;
using cs::Product;

constexpr int64_t kWorthHelp = int64_t{1} << 20;  // multiplications

// A thread's panels, which stay for its next call: aligned to cache lines.
template <class T>
T* room(int64_t count) {
  thread_local std::unique_ptr<T[]> held;
  thread_local int64_t size = 0;
  constexpr int64_t line = 64 / sizeof(T);
  if (size < count + line) {
    size = 0;
    held.reset();
    held.reset(new T[static_cast<size_t>(count + line)]);
    size = count + line;
  }
  return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(held.get()) + 63) & ~uintptr_t{63});
}

template <class T>
bool fits(const Product<T>& p) {
  if (p.batches < 0 || p.rows < 0 || p.columns < 0 || p.depth < 0) return false;
  const bool nothing = p.batches == 0 || p.rows == 0 || p.columns == 0;
  return nothing || (p.c && (p.depth == 0 || (p.a && p.b)));
}

template <class T>
int run(const Product<T>& p) {
  if (!fits(p)) return CS_ERROR_ARGUMENT;
  if (p.batches == 0 || p.rows == 0 || p.columns == 0) return CS_OK;
  const int64_t wide = CS_CALL(panel_width, p), panels = (p.columns + wide - 1) / wide, strips = (p.rows + kStrip - 1) / kStrip;
  const int64_t parts = std::max<int64_t>((p.depth + kDepth - 1) / kDepth, 1), most = (p.depth + parts - 1) / parts;
  const int limit = p.batches * p.rows * p.columns * p.depth < kWorthHelp ? 1 : cs::threads();
  const int64_t cuts = p.batches * strips < 4 * limit ? panels : 1;  // a strip's panels each a task where there are few strips
  T* const laid = room<T>(p.batches * panels * most * wide);
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t depth = part * most, count = std::min(most, p.depth - depth);
    auto lay = [&](int64_t task, int) {
      CS_CALL(lay_panel, p, task / panels, task % panels * wide, depth, count, laid + task * most * wide);
    };
    cs::parallel(p.batches * panels, limit, lay);
    auto multiply = [&](int64_t task, int) {
      const int64_t batch = task / (strips * cuts), row = task / cuts % strips * kStrip, end = std::min(p.rows, row + kStrip);
      for (int64_t panel = task % cuts; panel < panels; panel += cuts) {
        CS_CALL(multiply, p, batch, row, end, panel * wide, depth, count, laid + (batch * panels + panel) * most * wide);
      }
    };
    cs::parallel(p.batches * strips * cuts, limit, multiply);
  }
  return CS_OK;
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                                        \
  int cs_product_##kind(CS_PRODUCT(T)) {                                                                                          \
    const Product<T> p{batches, rows, columns, depth, a, a_batch, a_row, a_column, b, b_batch, b_row, b_column, start, start_row, \
                       c, c_batch, c_row};                                                                                        \
    return cs::guarded([&] { return run(p); });                                                                                   \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
