// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#pragma once

#include <cstdint>

namespace cs {

constexpr uint64_t kStep = UINT64_C(0x9e3779b97f4a7c15);

// Its finaliser: a bijection whose output bits all depend on all input bits.
inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

}  // namespace cs
