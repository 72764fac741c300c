// Products of dense matrices. As rows.cpp, CS_ISA names the instruction set this copy is compiled for, CS_VECTOR its register in bytes,
// and nothing from the standard library may be instantiated here.
//
// A tile of C, kTall rows times two registers, stays in registers while its depth goes by; the matrix on the right has been laid down in panels
// of that width, so that it is read in order. Every number of C is summed on its own, by ascending depth: it does not depend on the tile.
#include <string.h>

#include "dense.h"
#include "vectors.h"

namespace cs {
namespace CS_ISA {
namespace {

constexpr int kTall = CS_VECTOR == 64 ? 12 : 6;  // rows of a tile: its sums fill most of the 32 or 16 registers
static_assert(kStrip % kTall == 0);
template <class T>
constexpr int64_t kPanel = 2 * kWide<T>;

template <class T, int R>
void tile(const Product<T>& p, int64_t row, int64_t column, int64_t depth, int64_t count, const T* panel, int64_t batch) {
  using V = typename Pack<T>::type;
  constexpr int64_t W = kWide<T>;
  const T* const a = p.a + batch * p.a_batch + row * p.a_row + depth * p.a_column;
  V sums[R][2];
  for (int i = 0; i < R; ++i) sums[i][0] = sums[i][1] = V{};
  for (int64_t k = 0; k < count; ++k) {
    const V first = load<V>(panel + k * kPanel<T>), second = load<V>(panel + k * kPanel<T> + W);
    for (int i = 0; i < R; ++i) {
      const T x = a[i * p.a_row + k * p.a_column];
      sums[i][0] += x * first;
      sums[i][1] += x * second;
    }
  }
  T* const c = p.c + batch * p.c_batch + row * p.c_row + column;
  const T* const start = depth ? c : p.start ? p.start + row * p.start_row + column : nullptr;
  const int64_t from = depth ? p.c_row : p.start_row, columns = p.columns - column;
  if (columns >= kPanel<T>) {
    for (int i = 0; i < R; ++i) {
      for (int n = 0; n < 2; ++n) store(c + i * p.c_row + n * W, start ? sums[i][n] + load<V>(start + i * from + n * W) : sums[i][n]);
    }
    return;
  }
  for (int i = 0; i < R; ++i) {
    T whole[kPanel<T>];
    for (int n = 0; n < 2; ++n) store(whole + n * W, sums[i][n]);
    for (int64_t j = 0; j < columns; ++j) c[i * p.c_row + j] = start ? whole[j] + start[i * from + j] : whole[j];
  }
}

// Rows [row, end), one panel.
template <class T>
void strip(const Product<T>& p, int64_t row, int64_t end, int64_t column, int64_t depth, int64_t count, const T* panel, int64_t batch) {
  for (; row + kTall <= end; row += kTall) tile<T, kTall>(p, row, column, depth, count, panel, batch);
  for (; row + 4 <= end; row += 4) tile<T, 4>(p, row, column, depth, count, panel, batch);
  for (; row < end; ++row) tile<T, 1>(p, row, column, depth, count, panel, batch);
}

template <class T>
void lay(const Product<T>& p, int64_t batch, int64_t column, int64_t depth, int64_t count, T* panel) {
  constexpr int64_t P = kPanel<T>, kRun = 16;  // numbers of a column that are fetched together
  const T* const b = p.b + batch * p.b_batch + depth * p.b_row + column * p.b_column;
  const int64_t columns = p.columns - column < P ? p.columns - column : P;
  if (columns < P) memset(panel, 0, static_cast<size_t>(count * P) * sizeof(T));
  if (p.b_column == 1) {
    for (int64_t k = 0; k < count; ++k) copy(panel + k * P, b + k * p.b_row, columns);
    return;
  }
  for (int64_t k = 0; k < count; k += kRun) {
    const int64_t run = count - k < kRun ? count - k : kRun;
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < run; ++i) panel[(k + i) * P + j] = b[(k + i) * p.b_row + j * p.b_column];
    }
  }
}

}  // namespace

#define CS_DEFINE(T)                                                                                                        \
  int64_t panel_width(const Product<T>&) { return kPanel<T>; }                                                              \
  void lay_panel(const Product<T>& p, int64_t batch, int64_t column, int64_t depth, int64_t count, T* panel) {              \
    lay(p, batch, column, depth, count, panel);                                                                             \
  }                                                                                                                         \
  void multiply(const Product<T>& p, int64_t batch, int64_t row, int64_t end, int64_t column, int64_t depth, int64_t count, \
                const T* panel) {                                                                                           \
    strip(p, row, end, column, depth, count, panel, batch);                                                                 \
  }
CS_DEFINE(float)
CS_DEFINE(double)
#undef CS_DEFINE

}  // namespace CS_ISA
}  // namespace cs
