// Cosines and sines of angles frequency * elapsed + phase: each copy of the row kernels (CS_ISA) has its own, in an unnamed namespace.
#pragma once

#include <math.h>

#include <cstdint>

namespace cs {
namespace CS_ISA {
namespace {

constexpr double kFar = 2147483648.0;  // angles from here on are left to the C library

// Scratch memory for the angles of one elapsed time: `clock` of them, up to whole registers.
template <class T>
struct Angles {
  int64_t clock;
  T* remainder;           // less whole quarters of a turn
  int32_t* quarter;  // how many
};

// Computes cos and sin of frequency * elapsed + phase by the C library. The product is exact in double, whatever it is rounded to
// afterwards.
template <class S, class T>
void turn_far(const S& s, double elapsed, T* cosine, T* sine) {
  for (int64_t c = 0; c < s.clock; ++c) {
    const double angle = s.frequency[c] * elapsed + s.phase[c];
    cosine[c] = static_cast<T>(cos(angle));
    if (sine) sine[c] = static_cast<T>(sin(angle));
  }
}

// Quarters of a turn are taken off in double: 1.5 * 2^52 leaves their rounded number in the low bits, and pi / 2 comes in three parts, of
// which the first two times that number are exact. What is left is at most pi / 4; polynomials as in Cephes' sinf and cosf.
template <bool Sine, class S>
void turn_near(const S& s, const Angles<float>& room, double elapsed, float* __restrict cosine, float* __restrict sine) {
  const int64_t clock = room.clock;
  const double *const __restrict frequency = s.frequency, *const __restrict phase = s.phase;
  float* const __restrict remainder = room.remainder;
  int32_t* const __restrict quarter = room.quarter;
  for (int64_t c = 0; c < clock; ++c) {
    const double angle = frequency[c] * elapsed + phase[c];
    const double shifted = angle * 0.6366197723675814 + 6755399441055744.0;
    const double n = shifted - 6755399441055744.0;
    int64_t bits;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    remainder[c] = static_cast<float>(((angle - n * 1.570796012878418) - n * 3.139164164167596e-07) - n * 6.223372171896613e-14);
    quarter[c] = static_cast<int32_t>(bits);
  }
  for (int64_t c = 0; c < clock; ++c) {
    const float r = remainder[c], square = r * r;
    const float odd = r + r * square * (-1.6666654611e-1f + square * (8.3321608736e-3f + square * -1.9515295891e-4f));
    const float even =
        1.0f - 0.5f * square + square * square * (4.166664568298827e-2f + square * (-1.388731625493765e-3f + square * 2.443315711809948e-5f));
    const uint32_t q = static_cast<uint32_t>(quarter[c]);
    const float first = q & 1 ? odd : even;
    uint32_t bits;
    __builtin_memcpy(&bits, &first, sizeof bits);
    bits ^= ((q + 1) & 2) << 30;
    __builtin_memcpy(&cosine[c], &bits, sizeof bits);
    if (Sine) {
      const float second = q & 1 ? even : odd;
      __builtin_memcpy(&bits, &second, sizeof bits);
      bits ^= (q & 2) << 30;
      __builtin_memcpy(&sine[c], &bits, sizeof bits);
    }
  }
}

template <class S>
void turn(const S& s, const Angles<double>&, double elapsed, double* cosine, double* sine) { turn_far(s, elapsed, cosine, sine); }
template <class S>
void turn(const S& s, const Angles<float>& room, double elapsed, float* cosine, float* sine) {
  if (!(fabs(elapsed) * s.fastest + s.latest < kFar)) return turn_far(s, elapsed, cosine, sine);
  if (sine) turn_near<true>(s, room, elapsed, cosine, sine); else turn_near<false>(s, room, elapsed, cosine, sine);
}

}  // namespace
}  // namespace CS_ISA
}  // namespace cs
