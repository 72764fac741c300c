// Frequencies and phases of an encoding of elapsed times, as the row kernels read them.
#pragma once

#include <cmath>
#include <vector>

#include "slots.h"

namespace cs {

// Frequencies and phases in double, padded with zeros.
struct Clock {
  std::vector<double> numbers;

  // Converts them and sets the pointers and largest absolute values of `s`.
  template <class T, class S>
  Clock(S& s, const T* frequency, const T* phase) : numbers(static_cast<size_t>(2 * padded<T>(s.clock))) {
    const auto put = [&](const T* from, double* to, double& largest) {
      largest = 0;
      for (int64_t c = 0; c < s.clock; ++c) {
        to[c] = from[c];
        const double size = std::abs(to[c]);
        if (largest == largest && !(size <= largest)) largest = size;  // and stays a NaN
      }
    };
    double* const second = numbers.data() + padded<T>(s.clock);
    put(frequency, numbers.data(), s.fastest);
    put(phase, second, s.latest);
    s.frequency = numbers.data();
    s.phase = second;
  }
};

}  // namespace cs
