// Encodings of elapsed times. As in rows.cpp, CS_ISA names the instruction set this copy is compiled for, CS_VECTOR its register in bytes,
// and nothing from the standard library may be instantiated here.
#include <math.h>

#include "kernels.h"
#include "slots.h"
#include "turns.h"
#include "vectors.h"

namespace cs {
namespace CS_ISA {
namespace {

template <class T>
void turns(const Encoding<T>& e, int64_t begin, int64_t end, T* room) {
  const int64_t wide = padded<T>(e.clock);
  T *const cosine = room, *const sine = e.sine ? room + wide : nullptr;
  const Angles<T> angles{wide, room + 2 * wide, reinterpret_cast<int32_t*>(room + 3 * wide)};
  for (int64_t row = begin; row < end; ++row) {
    turn(e, angles, e.elapsed[row], cosine, sine);
    copy(e.cosine + row * e.clock, cosine, e.clock);
    if (sine) copy(e.sine + row * e.clock, sine, e.clock);
  }
}

}  // namespace

void encode(const Encoding<float>& e, int64_t begin, int64_t end, float* room) { turns(e, begin, end, room); }
void encode(const Encoding<double>& e, int64_t begin, int64_t end, double* room) { turns(e, begin, end, room); }

}  // namespace CS_ISA
}  // namespace cs
