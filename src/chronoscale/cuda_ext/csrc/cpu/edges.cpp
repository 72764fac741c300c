// As rows.cpp, CS_ISA names the instruction set this copy is compiled for, and nothing from the standard library may be
// instantiated here.
#include "edges.h"

#include <math.h>

namespace cs {
namespace CS_ISA {
namespace {

constexpr int64_t kAhead = 8;  // entries between a prefetch and its use

// e^x to two units in the last place, zero below the smallest normal number, without a branch: a loop of it is vectors.
inline float exponential(float x) {
  const float low = x < -87.0f ? -87.0f : x, clipped = low > 89.0f ? 89.0f : low;
  const float shifted = clipped * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the sum's low bits are the rounded product
  const float n = shifted - 12582912.0f;
  const float r = (clipped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? 0.0f : p * power;
}
inline double exponential(double x) { return exp(x); }

template <class T>
inline T leaky(T score, T slope) { return score > 0 ? score : slope * score; }

// How near a removed score must be to the row's largest to be taken for it.
template <class T>
inline T tiny(T base) { return (sizeof(T) == 4 ? T(1e-6) : T(1e-14)) * (1 + (base < 0 ? -base : base)); }

template <class T>
void weigh(const Softmax<T>& s, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = s.indptr[r], last = s.indptr[r + 1];
    const T right = s.right[s.targets ? s.targets[r] : r], base = s.base ? s.base[r] : -T(INFINITY), slope = s.slope;
    T* const w = s.weights;
    T top = base;
#pragma omp simd reduction(max : top)
    for (int64_t e = first; e < last; ++e) {
      w[e] = leaky(s.left[s.indices[e]] + right, slope);
      const T counted = !s.sign || s.sign[e] > 0 ? w[e] : base;
      top = counted > top ? counted : top;
    }
    if (s.held) {
      bool held = false;
      for (int64_t e = first; e < last; ++e) held |= s.sign && s.sign[e] < 0 && w[e] >= base - tiny(base);
      s.held[r] = held;
    }
    if (!s.running) top = base;
    if (top == -T(INFINITY)) top = 0;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t e = first; e < last; ++e) {
      const T power = exponential(w[e] - top);
      w[e] = s.sign ? s.sign[e] * power : power;
      sum += w[e];
    }
    s.maximum[r] = top;
    s.denominator[r] = sum;
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
