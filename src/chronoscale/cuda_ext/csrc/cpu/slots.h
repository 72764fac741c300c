// Layout of the slots of a target in a thread's scratch memory, the same for all instruction sets.
#pragma once

#include <cstdint>

#include "../common/operands.h"

namespace cs {

// Rounds up to whole cache lines, which are whole registers.
template <class T>
constexpr int64_t padded(int64_t count) {
  constexpr int64_t line = 64 / sizeof(T);
  return (count + line - 1) / line * line;
}

struct Layout {
  int64_t width, edges, clock, across;
};

template <class T>
Layout layout_of(const Slots<T>& s) {
  const int64_t width = padded<T>(s.width), edges = padded<T>(s.edges), clock = padded<T>(s.clock);
  return {width, edges, clock, width + edges + clock};
}

}  // namespace cs
