// Softmax over the entries of each row, for each head, and its gradient. As in rows.cpp, CS_ISA names the instruction set this copy is
// compiled for, CS_VECTOR its register in bytes, and nothing from the standard library may be instantiated here.
//
// A row is entries x heads numbers side by side. Where a register holds a whole number of entries, a lane has one head throughout: the row
// stays in registers while its lanes are put together by rotations, however few its entries.
#include <math.h>

#include "exponential.h"
#include "kernels.h"
#include "vectors.h"

namespace cs {
namespace CS_ISA {
namespace {

constexpr int kMost = 4;     // registers of a row that stay
constexpr int kHeads = 16;   // heads that are reduced together where they fill no register

template <class T, int W>
struct Lanes;  // whole numbers as wide as T: what comparisons give
template <int W>
struct Lanes<float, W> {
  typedef typename Pack<int32_t, W>::type type;
};
template <int W>
struct Lanes<double, W> {
  typedef typename Pack<int64_t, W>::type type;
};

// Computes e^x of a register, with the polynomial of exponential.h.
template <int W>
inline typename Pack<float, W>::type powers(typename Pack<float, W>::type x) {
  using V = typename Pack<float, W>::type;
  const V low = x < -87.0f ? V{} - 87.0f : x, clipped = low > 89.0f ? V{} + 89.0f : low;
  const V n = (clipped * 1.44269504f + 12582912.0f) - 12582912.0f;
  const V r = (clipped - n * 0.693359375f) + n * 2.12194440e-4f;
  V p = V{} + 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const auto bits = (__builtin_convertvector(n, typename Lanes<float, W>::type) + 127) << 23;
  V power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? V{} : p * power;
}
template <int W>
inline typename Pack<double, W>::type powers(typename Pack<double, W>::type x) {
  for (int i = 0; i < W; ++i) x[i] = exp(x[i]);
  return x;
}

template <class V>
inline V larger(V a, V b) { return b > a ? b : a; }

template <class T, int W, int Step>
inline typename Pack<T, W>::type turned(typename Pack<T, W>::type v) {
  typename Lanes<T, W>::type from;
  for (int i = 0; i < W; ++i) from[i] = (i + Step) % W;
#ifdef __clang__
  typename Pack<T, W>::type to;
  for (int i = 0; i < W; ++i) to[i] = v[from[i]];
  return to;
#else
  return __builtin_shuffle(v, from);
#endif
}

// Reduces, in every lane, all lanes of its head.
template <class T, int W, int H, int Step = W / 2>
inline typename Pack<T, W>::type largest(typename Pack<T, W>::type v) {
  if constexpr (Step < H) return v; else return largest<T, W, H, Step / 2>(larger(v, turned<T, W, Step>(v)));
}
template <class T, int W, int H, int Step = W / 2>
inline typename Pack<T, W>::type summed(typename Pack<T, W>::type v) {
  if constexpr (Step < H) return v; else return summed<T, W, H, Step / 2>(v + turned<T, W, Step>(v));
}

// Returns v with `other` in all lanes but the first `count`.
template <class T, int W>
inline typename Pack<T, W>::type first(typename Pack<T, W>::type v, int64_t count, T other) {
  typename Lanes<T, W>::type lane;
  for (int i = 0; i < W; ++i) lane[i] = i;
  return lane < static_cast<decltype(lane[0] + 0)>(count) ? v : typename Pack<T, W>::type{} + other;
}

// Rows of N registers, of which the last has `tail_lanes` lanes: N registers are read and written from each.
template <class T, int W, int H, int N>
inline void weigh(const T* input, T* out, int64_t tail_lanes) {
  using V = typename Pack<T, W>::type;
  V v[N];
  for (int i = 0; i < N; ++i) v[i] = load<V>(input + i * W);
  v[N - 1] = first<T, W>(v[N - 1], tail_lanes, -T(INFINITY));
  V top = v[0];
  for (int i = 1; i < N; ++i) top = larger(top, v[i]);
  top = largest<T, W, H>(top);
  V sum{};
  for (int i = 0; i < N; ++i) sum += v[i] = powers<W>(v[i] - top);
  const V scale = 1 / summed<T, W, H>(sum);
  for (int i = 0; i < N; ++i) store(out + i * W, v[i] * scale);
}
template <class T, int W, int H, int N>
inline void derive(const T* input, const T* into, T* out, int64_t tail_lanes) {
  using V = typename Pack<T, W>::type;
  V a[N], g[N], sum{};
  for (int i = 0; i < N; ++i) {
    a[i] = load<V>(input + i * W), g[i] = load<V>(into + i * W);
    sum += i + 1 < N ? a[i] * g[i] : first<T, W>(a[i] * g[i], tail_lanes, T(0));
  }
  sum = summed<T, W, H>(sum);
  for (int i = 0; i < N; ++i) store(out + i * W, a[i] * (g[i] - sum));
}

// A row of `count` numbers, N registers or fewer. What of the last register lies beyond it is of the next row, which comes later.
template <class T, int W, int H, int N>
inline void few(const T* input, const T* into, T* out, int64_t count) {
  if constexpr (N > 1) {
    if (count <= (N - 1) * W) return few<T, W, H, N - 1>(input, into, out, count);
  }
  const int64_t tail_lanes = count - (N - 1) * W;
  if (into) derive<T, W, H, N>(input, into, out, tail_lanes); else weigh<T, W, H, N>(input, out, tail_lanes);
}

// The same at the end of a block, beyond which nothing may be touched.
template <class T, int W, int H>
void last(const T* input, const T* into, T* out, int64_t count) {
  T room[3][kMost * W] = {};
  copy(room[0], input, count);
  if (into) copy(room[1], into, count);
  few<T, W, H, kMost>(room[0], into ? room[1] : nullptr, room[2], count);
  copy(out, room[2], count);
}

// A row of more registers than stay: what comes between passes is left in `out`.
template <class T, int W, int H>
void many(const T* input, const T* into, T* out, int64_t count) {
  using V = typename Pack<T, W>::type;
  const int64_t whole = count / W * W, tail_lanes = count - whole;
  T tail[W] = {}, other[W] = {};
  copy(tail, input + whole, tail_lanes);
  if (into) copy(other, into + whole, tail_lanes);
  V sum{};
  if (into) {
    for (int64_t c = 0; c < whole; c += W) sum += load<V>(input + c) * load<V>(into + c);
    sum = summed<T, W, H>(sum + load<V>(tail) * load<V>(other));
    for (int64_t c = 0; c < whole; c += W) store(out + c, load<V>(input + c) * (load<V>(into + c) - sum));
    store(tail, load<V>(tail) * (load<V>(other) - sum));
  } else {
    const V end = first<T, W>(load<V>(tail), tail_lanes, -T(INFINITY));
    V top = end;
    for (int64_t c = 0; c < whole; c += W) top = larger(top, load<V>(input + c));
    top = largest<T, W, H>(top);
    for (int64_t c = 0; c < whole; c += W) {
      const V power = powers<W>(load<V>(input + c) - top);
      sum += power;
      store(out + c, power);
    }
    const V power = powers<W>(end - top), scale = 1 / summed<T, W, H>(sum + power);
    for (int64_t c = 0; c < whole; c += W) store(out + c, load<V>(out + c) * scale);
    store(tail, power * scale);
  }
  copy(out + whole, tail, tail_lanes);
}

template <class T, int W, int H>
void by_register(const Shares<T>& s, int64_t begin, int64_t end) {
  const int64_t limit = s.indptr[end] * H;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = s.indptr[row] * H, count = s.indptr[row + 1] * H - at;
    const T* const into = s.into ? s.into + at : nullptr;
    if (count == 0) continue;
    if (count > kMost * W) {
      many<T, W, H>(s.input + at, into, s.out + at, count);
    } else if (at + kMost * W > limit) {
      last<T, W, H>(s.input + at, into, s.out + at, count);
    } else {
      few<T, W, H, kMost>(s.input + at, into, s.out + at, count);
    }
  }
}

// Heads [head, head + count) of a row.
template <class T>
void by_head(const Shares<T>& s, int64_t row, int64_t head, int64_t count) {
  T top[kHeads], sum[kHeads];
  const int64_t H = s.heads, begin = s.indptr[row] * H + head, end = s.indptr[row + 1] * H;
  for (int64_t h = 0; h < count; ++h) top[h] = -T(INFINITY), sum[h] = 0;
  if (s.into) {
    for (int64_t at = begin; at < end; at += H) {
      for (int64_t h = 0; h < count; ++h) sum[h] += s.input[at + h] * s.into[at + h];
    }
    for (int64_t at = begin; at < end; at += H) {
      for (int64_t h = 0; h < count; ++h) s.out[at + h] = s.input[at + h] * (s.into[at + h] - sum[h]);
    }
    return;
  }
  for (int64_t at = begin; at < end; at += H) {
    for (int64_t h = 0; h < count; ++h) top[h] = s.input[at + h] > top[h] ? s.input[at + h] : top[h];
  }
  for (int64_t at = begin; at < end; at += H) {
    for (int64_t h = 0; h < count; ++h) {
      const T power = exponential(s.input[at + h] - top[h]);
      s.out[at + h] = power;
      sum[h] += power;
    }
  }
  for (int64_t h = 0; h < count; ++h) sum[h] = 1 / sum[h];
  for (int64_t at = begin; at < end; at += H) {
    for (int64_t h = 0; h < count; ++h) s.out[at + h] *= sum[h];
  }
}

template <class T, int H = 8>
void choose(const Shares<T>& s, int64_t begin, int64_t end) {
  constexpr int W = CS_VECTOR / sizeof(T);
  if constexpr (H == 0) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < s.heads; head += kHeads) by_head(s, row, head, s.heads - head < kHeads ? s.heads - head : kHeads);
    }
  } else {
    if constexpr (H <= W) {
      if (s.heads == H) return by_register<T, W, H>(s, begin, end);
    }
    choose<T, H / 2>(s, begin, end);
  }
}

}  // namespace

void shares(const Shares<float>& s, int64_t begin, int64_t end) { choose(s, begin, end); }
void shares(const Shares<double>& s, int64_t begin, int64_t end) { choose(s, begin, end); }

}  // namespace CS_ISA
}  // namespace cs
