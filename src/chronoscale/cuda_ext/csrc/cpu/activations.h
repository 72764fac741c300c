// Sigmoid and hyperbolic tangent of the row kernels, vectorised: as in exponential.h, each copy (CS_ISA) has its own.
#pragma once

#include <math.h>

#include "exponential.h"

namespace cs {
namespace CS_ISA {
namespace {

template <class T>
inline T sigmoid(T x) { return T(1) / (T(1) + exponential(-x)); }

inline double hyperbolic(double x) { return tanh(x); }
inline float hyperbolic(float x) {
  const float size = x < 0 ? -x : x, square = x * x;
  const float decayed = exponential(-2 * size), far = (1 - decayed) / (1 + decayed);  // inexact where x is small
  const float near = x + x * square * (-0.33333333f + square * (0.13333333f + square * (-0.053968254f + square * 0.021869488f)));
  return size < 0.25f ? near : x < 0 ? -far : far;
}

}  // namespace
}  // namespace CS_ISA
}  // namespace cs
