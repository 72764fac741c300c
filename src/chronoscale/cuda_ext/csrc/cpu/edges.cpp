// Softmax of graph attention over a row's edges, and its gradient. As in rows.cpp, CS_ISA names the instruction set this copy is compiled
// for, and nothing from the standard library may be instantiated here.
#include <math.h>

#include "exponential.h"
#include "kernels.h"

namespace cs {
namespace CS_ISA {
namespace {

constexpr int64_t kAhead = 8;  // entries between a prefetch and its use
constexpr int64_t kRows = 64;  // rows whose weights stay in the nearest cache

template <class T>
inline T leaky(T score, T slope) { return score > 0 ? score : slope * score; }

// Returns how near a removed score must be to the row's largest to count as its maximum.
template <class T>
inline T tiny(T base) { return (sizeof(T) == 4 ? T(1e-6) : T(1e-14)) * (1 + (base < 0 ? -base : base)); }

// A loop of its own, so that it is vectorised: half of the branches on the scores' signs would be mispredicted.
template <class T>
void scores(T* __restrict w, const T* __restrict left, const int32_t* __restrict ids, int64_t first, int64_t last, T right, T slope) {
  for (int64_t e = first; e < last; ++e) {
    const T raw = left[ids[e]] + right;
    w[e] = leaky(raw, slope);
  }
}

template <class T>
void exponentials(T* __restrict w, int64_t count) {
  for (int64_t e = 0; e < count; ++e) w[e] = exponential(w[e]);
}

// Scores less their row's maximum; then the exponentials of all rows as one long loop, for rows are often shorter than a
// register; then signs and sums.
template <class T, bool Signed>
void weigh(const Softmax<T>& s, int64_t begin, int64_t end) {
  T* const w = s.weights;
  const int32_t* const indices = s.indices;
  const T *const left = s.left, slope = s.slope;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = s.indptr[r], last = s.indptr[r + 1];
    const T right = s.right[s.targets ? s.targets[r] : r], base = s.base ? s.base[r] : -T(INFINITY);
    const T near = base - tiny(base);
    T top = base;
    bool removed_maximum = false;
    scores(w, left, indices, first, last, right, slope);
    for (int64_t e = first; e < last; ++e) {
      const bool removed = Signed && s.sign[e] < 0;
      removed_maximum |= removed & (w[e] >= near);
      const T counted = removed ? base : w[e];
      top = counted > top ? counted : top;
    }
    if (s.removed_maximum) s.removed_maximum[r] = removed_maximum;
    if (!s.running) top = base;
    if (top == -T(INFINITY)) top = 0;
    s.maximum[r] = top;
    for (int64_t e = first; e < last; ++e) w[e] -= top;
  }
  exponentials(w + s.indptr[begin], s.indptr[end] - s.indptr[begin]);
  for (int64_t r = begin; r < end; ++r) {
    T sum = 0;
    for (int64_t e = s.indptr[r]; e < s.indptr[r + 1]; ++e) {
      if (Signed) w[e] *= s.sign[e];
      sum += w[e];
    }
    s.denominator[r] = sum;
  }
}

template <class T>
void weigh(const Softmax<T>& s, int64_t begin, int64_t end) {
  for (; begin < end; begin += kRows) {
    const int64_t to = begin + kRows < end ? begin + kRows : end;
    if (s.sign) weigh<T, true>(s, begin, to); else weigh<T, false>(s, begin, to);
  }
}

template <class T>
void derive(const SoftmaxGrad<T>& s, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* const into = s.into_total + r * s.width;
    const T right = s.right[s.targets ? s.targets[r] : r];
    T row = 0;
    for (int64_t e = s.indptr[r]; e < s.indptr[r + 1]; ++e) {
      if (e + kAhead < s.indptr[end]) {
        const char* const soon = reinterpret_cast<const char*>(s.z + s.indices[e + kAhead] * s.width);
        for (int64_t byte = 0; byte < s.width * int64_t{sizeof(T)}; byte += 64) __builtin_prefetch(soon + byte);
      }
      const T* const z = s.z + s.indices[e] * s.width;
      T dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t f = 0; f < s.width; ++f) dot += into[f] * z[f];
      const T slope = s.left[s.indices[e]] + right > 0 ? T(1) : s.slope;
      s.edges[e] = s.weights[e] * slope * (dot + s.into_denominator[r]);
      row += s.edges[e];
    }
    s.row[r] = row;
  }
}

}  // namespace

void softmax(const Softmax<float>& s, int64_t begin, int64_t end) { weigh(s, begin, end); }
void softmax(const Softmax<double>& s, int64_t begin, int64_t end) { weigh(s, begin, end); }
void softmax_grad(const SoftmaxGrad<float>& s, int64_t begin, int64_t end) { derive(s, begin, end); }
void softmax_grad(const SoftmaxGrad<double>& s, int64_t begin, int64_t end) { derive(s, begin, end); }

}  // namespace CS_ISA
}  // namespace cs
