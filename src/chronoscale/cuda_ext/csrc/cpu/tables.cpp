// Rows of two tables by one index. As in rows.cpp, CS_ISA names the instruction set this copy is compiled for, and nothing from the
// standard library may be instantiated here.
#include "kernels.h"
#include "vectors.h"

namespace cs {
namespace CS_ISA {
namespace {

constexpr int64_t kAhead = 8;  // rows between a prefetch and its use

template <class T, class I>
inline const T* row_of(const Tables<T, I>& t, int64_t id) {
  return id < t.cached_rows ? t.cached + id * t.width : t.sent + (id - t.cached_rows) * t.width;
}

template <class T, class I>
bool gather(const Tables<T, I>& t, int64_t begin, int64_t end) {
  const int64_t rows = t.cached_rows + t.sent_rows;
  bool outside = false;
  for (int64_t i = begin; i < end; ++i) outside |= t.index[i] < 0 || t.index[i] >= rows;
  if (outside) return false;
  for (int64_t i = begin; i < end; ++i) {
    if (i + kAhead < end) ask_for(row_of(t, t.index[i + kAhead]), t.width, false);
    copy(t.out + i * t.width, row_of(t, t.index[i]), t.width);
  }
  return true;
}

}  // namespace

#define CS_DEFINE(T, I) \
  bool tables(const Tables<T, I>& t, int64_t begin, int64_t end) { return gather(t, begin, end); }
CS_DEFINE(float, int32_t)
CS_DEFINE(float, int64_t)
CS_DEFINE(double, int32_t)
CS_DEFINE(double, int64_t)
#undef CS_DEFINE

}  // namespace CS_ISA
}  // namespace cs
