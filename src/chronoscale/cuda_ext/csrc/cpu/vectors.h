// Vector registers of one copy of the row kernels (CS_ISA, CS_VECTOR bytes each), in an unnamed namespace that the linker does not merge.
#pragma once

#include <cstdint>

namespace cs {
namespace CS_ISA {
namespace {

template <class T, int W = CS_VECTOR / sizeof(T)>
struct Pack {
  typedef T type __attribute__((vector_size(W * sizeof(T))));
};
template <class T>
struct Pack<T, 1> {
  typedef T type;
};
template <class T>
constexpr int64_t kWide = CS_VECTOR / sizeof(T);

template <class V, class T>
inline V load(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class T>
inline void store(T* to, V v) { __builtin_memcpy(to, &v, sizeof v); }

template <class T, int W>
inline T total(typename Pack<T, W>::type v) {
  if constexpr (W == 1) {
    return v;
  } else {
    using Half = typename Pack<T, W / 2>::type;
    T all[W];
    store(all, v);
    return total<T, W / 2>(load<Half>(all) + load<Half>(all + W / 2));
  }
}

// Copies a row without a call of memcpy, which would take as long as the computation on it.
template <class T, int W = kWide<T>>
inline void copy(T* __restrict to, const T* __restrict from, int64_t count, int64_t c = 0) {
  using V = typename Pack<T, W>::type;
  for (; c + W <= count; c += W) store(to + c, load<V>(from + c));
  if constexpr (W > 1) copy<T, W / 2>(to, from, count, c);
}

template <class T>
inline void ask_for(const T* row, int64_t width, bool written) {
  const char* const from = reinterpret_cast<const char*>(row);
  for (int64_t byte = 0; byte < width * int64_t{sizeof(T)}; byte += 64) {
    if (written) __builtin_prefetch(from + byte, 1); else __builtin_prefetch(from + byte);
  }
}

}  // namespace
}  // namespace CS_ISA
}  // namespace cs
