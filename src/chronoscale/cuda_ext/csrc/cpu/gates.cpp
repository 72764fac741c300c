// The gates of a GRU. As rows.cpp, CS_ISA names the instruction set this copy is compiled for, CS_VECTOR its
// register in bytes, and nothing from the standard library may be instantiated here.
#include <math.h>

#include "exponential.h"
#include "kernels.h"
#include "vectors.h"

namespace cs {
namespace CS_ISA {
namespace {

template <class T>
inline T sigmoid(T x) { return T(1) / (T(1) + exponential(-x)); }

inline double hyperbolic(double x) { return tanh(x); }
inline float hyperbolic(float x) {
  const float size = x < 0 ? -x : x, square = x * x;
  const float gone = exponential(-2 * size), far = (1 - gone) / (1 + gone);  // loses digits where x is small
  const float near = x + x * square * (-0.33333333f + square * (0.13333333f + square * (-0.053968254f + square * 0.021869488f)));
  return size < 0.25f ? near : x < 0 ? -far : far;
}

template <class T>
void forward(const Gates<T>& g, int64_t begin, int64_t end) {
  const int64_t H = g.hidden;
  for (int64_t row = begin; row < end; ++row) {
    const T *const __restrict given = g.given + row * 3 * H, *const __restrict kept = g.kept + row * 3 * H;
    const T* const __restrict memory = g.memory + row * H;
    T* const __restrict out = g.out + row * H;
    if (!g.there[row]) {
      copy(out, memory, H);
      continue;
    }
#pragma omp simd
    for (int64_t c = 0; c < H; ++c) {
      const T reset = sigmoid(given[c] + kept[c]), stay = sigmoid(given[H + c] + kept[H + c]);
      const T candidate = hyperbolic(given[2 * H + c] + reset * kept[2 * H + c]);
      out[c] = candidate + stay * (memory[c] - candidate);
    }
  }
}

template <class T>
void backward(const GatesGrad<T>& g, int64_t begin, int64_t end) {
  const int64_t H = g.hidden;
  for (int64_t row = begin; row < end; ++row) {
    const T *const __restrict given = g.given + row * 3 * H, *const __restrict kept = g.kept + row * 3 * H;
    const T *const __restrict memory = g.memory + row * H, *const __restrict into = g.into + row * H;
    T *const __restrict to_given = g.to_given + row * 3 * H, *const __restrict to_kept = g.to_kept + row * 3 * H;
    if (!g.there[row]) {
      for (int64_t c = 0; c < 3 * H; ++c) to_given[c] = to_kept[c] = 0;
      if (g.to_memory) copy(g.to_memory + row * H, into, H);
      continue;
    }
#pragma omp simd  // GCC would not see that the thirds of a row are apart
    for (int64_t c = 0; c < H; ++c) {
      const T reset = sigmoid(given[c] + kept[c]), stay = sigmoid(given[H + c] + kept[H + c]), other = kept[2 * H + c];
      const T candidate = hyperbolic(given[2 * H + c] + reset * other);
      const T to_candidate = into[c] * (1 - stay) * (1 - candidate * candidate);
      const T to_reset = to_candidate * other * reset * (1 - reset);
      const T to_stay = into[c] * (memory[c] - candidate) * stay * (1 - stay);
      to_given[c] = to_kept[c] = to_reset;
      to_given[H + c] = to_kept[H + c] = to_stay;
      to_given[2 * H + c] = to_candidate;
      to_kept[2 * H + c] = to_candidate * reset;
    }
    if (!g.to_memory) continue;
    for (int64_t c = 0; c < H; ++c) g.to_memory[row * H + c] = into[c] * sigmoid(given[H + c] + kept[H + c]);
  }
}

}  // namespace

#define CS_DEFINE(T)                                                                              \
  void gates(const Gates<T>& g, int64_t begin, int64_t end) { forward(g, begin, end); }           \
  void gates_grad(const GatesGrad<T>& g, int64_t begin, int64_t end) { backward(g, begin, end); }
CS_DEFINE(float)
CS_DEFINE(double)
#undef CS_DEFINE

}  // namespace CS_ISA
}  // namespace cs
