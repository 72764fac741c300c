// Exponential function of the row kernels, vectorised: each copy (CS_ISA) has its own, in an unnamed namespace that the linker does not
// merge.
#pragma once

#include <math.h>

#include <cstdint>

namespace cs {
namespace CS_ISA {
namespace {

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

}  // namespace
}  // namespace CS_ISA
}  // namespace cs
