// Attention to sampled slots. As in rows.cpp, CS_ISA names the instruction set this copy is compiled for, CS_VECTOR its register in bytes,
// and nothing from the standard library may be instantiated here.
//
// The slots of a target are laid beside each other first, each part padded with zeros to whole registers: they stay in the nearest cache
// while they are scored, weighed and graded, and no loop has a tail.
#include <math.h>
#include <string.h>

#include "exponential.h"
#include "kernels.h"
#include "slots.h"
#include "turns.h"
#include "vectors.h"

namespace cs {
namespace CS_ISA {
namespace {

// Scratch memory of one target: its filled slots, the queries of its heads, and so on. All arrays begin at whole registers.
template <class T>
struct Room {
  Layout layout;
  int64_t stride;    // of coefficients
  T* x;              // [fanout, across]: slots
  T* sine;           // [fanout, clock]: of the angles whose cosines stand in x
  T* vectors;        // [2 * heads, across]: queries, then the gradients of their sums
  T* sums;           // [heads, across]
  T* coefficients;   // [2 * heads, fanout]: forward scores; backward gradients of the scores, then weights as they were summed
  T* elapsed;        // [fanout]
  T* remainder;           // [clock]: angles less whole quarters of a turn
  T* turns;          // [2, clock]: gradients of frequencies and phases
  int32_t* quarter;  // [clock]
  int32_t* place;    // [fanout]: numbers of the filled slots
  int64_t* rows;     // [fanout]: where rows begin

  Room(const Slots<T>& s, T* room) : layout(layout_of(s)), stride(padded<T>(s.fanout)), x(room) {
    const auto take = [&](int64_t count) { T* const from = room; room += count; return from; };
    take(s.fanout * layout.across);
    sine = take(s.fanout * layout.clock);
    vectors = take(2 * s.heads * layout.across);
    sums = take(s.heads * layout.across);
    coefficients = take(2 * s.heads * stride);
    elapsed = take(stride);
    remainder = take(layout.clock);
    turns = take(2 * layout.clock);
    quarter = reinterpret_cast<int32_t*>(take(layout.clock));
    place = reinterpret_cast<int32_t*>(take(stride));
    rows = reinterpret_cast<int64_t*>(take(2 * stride));
    memset(x, 0, static_cast<size_t>(room - x) * sizeof(T));
  }
};

// Copies [X] to and from its padded parts.
template <class T>
void spread(const Slots<T>& s, const Layout& l, const T* from, T* to) {
  copy(to, from, s.width);
  copy(to + l.width, from + s.width, s.edges);
  copy(to + l.width + l.edges, from + s.width + s.edges, s.clock);
}
template <class T>
void gather(const Slots<T>& s, const Layout& l, const T* from, T* to) {
  copy(to, from, s.width);
  copy(to + s.width, from + l.width, s.edges);
  copy(to + s.width + s.edges, from + l.width + l.edges, s.clock);
}

// Returns where head h of target t begins in `query`, and in arrays of its shape.
template <class T>
inline int64_t at_head(const Slots<T>& s, int64_t t, int64_t h) {
  return (s.by_head ? h * s.targets + t : t * s.heads + h) * (s.width + s.edges + s.clock);
}

// Lists the filled slots of target t. Returns how many there are.
template <class T>
int64_t find_filled(const Slots<T>& s, Room<T>& room, int64_t t) {
  int64_t count = 0;
  for (int64_t k = 0; k < s.fanout; ++k) {
    if (s.mask[t * s.fanout + k]) room.place[count++] = static_cast<int32_t>(k);
  }
  return count;
}

// Lays out the filled slots of target t, and its queries. Returns how many slots there are.
template <class T>
int64_t lay(const Slots<T>& s, Room<T>& room, int64_t t, bool sine) {
  const Layout& l = room.layout;
  const int64_t first = t * s.fanout, count = find_filled(s, room, t);
  if (t + 1 < s.targets) {
    for (int64_t k = first + s.fanout; k < first + 2 * s.fanout; ++k) {
      if (s.mask[k]) ask_for(s.source + s.slot[k] * s.width, s.width, false);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + room.place[i];
    T* const x = room.x + i * l.across;
    copy(x, s.source + s.slot[at] * s.width, s.width);
    if (s.edges) copy(x + l.width, s.edge + at * s.edges, s.edges);
    if (s.clock) {
      room.elapsed[i] = s.elapsed[at];
      turn(s, Angles<T>{l.clock, room.remainder, room.quarter}, s.elapsed[at], x + l.width + l.edges, sine ? room.sine + i * l.clock : nullptr);
    }
  }
  for (int64_t h = 0; h < s.heads; ++h) spread(s, l, s.query + at_head(s, t, h), room.vectors + h * l.across);
  return count;
}

// products[h, i] = vectors[h, :] . x[i, :], for H heads and I slots: enough sums that no addition waits for the one before.
template <class T, int H, int I>
inline void products_tile(const T* vectors, const T* x, int64_t across, T* out, int64_t stride) {
  using V = typename Pack<T>::type;
  V sums[H][I];
  for (int h = 0; h < H; ++h) {
    for (int i = 0; i < I; ++i) sums[h][i] = V{};
  }
  for (int64_t c = 0; c < across; c += kWide<T>) {
    V v[I];
    for (int i = 0; i < I; ++i) v[i] = load<V>(x + i * across + c);
    for (int h = 0; h < H; ++h) {
      const V vector = load<V>(vectors + h * across + c);
      for (int i = 0; i < I; ++i) sums[h][i] += v[i] * vector;
    }
  }
  for (int h = 0; h < H; ++h) {
    for (int i = 0; i < I; ++i) out[h * stride + i] = total<T, kWide<T>>(sums[h][i]);
  }
}
template <class T, int H>
void products(const T* vectors, const T* x, int64_t across, int64_t count, T* out, int64_t stride) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) products_tile<T, H, 4>(vectors, x + i * across, across, out + i, stride);
  for (; i < count; ++i) products_tile<T, H, 1>(vectors, x + i * across, across, out + i, stride);
}
template <class T>
void products(const T* vectors, int64_t heads, const T* x, int64_t across, int64_t count, T* out, int64_t stride) {
  int64_t h = 0;
  for (; h + 2 <= heads; h += 2) products<T, 2>(vectors + h * across, x, across, count, out + h * stride, stride);
  if (h < heads) products<T, 1>(vectors + h * across, x, across, count, out + h * stride, stride);
}

// sums[h, :] = sum over i of weights[h, i] * x[i, :], for H heads and N registers of columns.
template <class T, int H, int N>
void weigh_tile(const T* weights, int64_t stride, const T* x, int64_t across, int64_t count, T* sums) {
  using V = typename Pack<T>::type;
  V acc[H][N];
  for (int h = 0; h < H; ++h) {
    for (int n = 0; n < N; ++n) acc[h][n] = V{};
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int n = 0; n < N; ++n) {
      const V v = load<V>(x + i * across + n * kWide<T>);
      for (int h = 0; h < H; ++h) acc[h][n] += weights[h * stride + i] * v;
    }
  }
  for (int h = 0; h < H; ++h) {
    for (int n = 0; n < N; ++n) store(sums + h * across + n * kWide<T>, acc[h][n]);
  }
}
template <class T, int H>
void weigh(const T* weights, int64_t stride, const T* x, int64_t across, int64_t count, T* sums) {
  constexpr int N = 4;
  int64_t c = 0;
  for (; c + N * kWide<T> <= across; c += N * kWide<T>) weigh_tile<T, H, N>(weights, stride, x + c, across, count, sums + c);
  for (; c < across; c += kWide<T>) weigh_tile<T, H, 1>(weights, stride, x + c, across, count, sums + c);
}
template <class T>
void weigh(const T* weights, int64_t heads, int64_t stride, const T* x, int64_t across, int64_t count, T* sums) {
  int64_t h = 0;
  for (; h + 2 <= heads; h += 2) weigh<T, 2>(weights + h * stride, stride, x, across, count, sums + h * across);
  if (h < heads) weigh<T, 1>(weights + h * stride, stride, x, across, count, sums + h * across);
}

template <class T>
void forward(const Slots<T>& s, int64_t begin, int64_t end, T* space, T* weights, T* out) {
  Room<T> room(s, space);
  const Layout& l = room.layout;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t count = lay(s, room, t, false);
    products(room.vectors, s.heads, room.x, l.across, count, room.coefficients, room.stride);
    for (int64_t h = 0; h < s.heads; ++h) {
      T* const scores = room.coefficients + h * room.stride;
      T top = -T(INFINITY), sum = 0;
      for (int64_t i = 0; i < count; ++i) top = scores[i] > top ? scores[i] : top;
      for (int64_t i = 0; i < count; ++i) scores[i] = exponential(scores[i] - top);
      for (int64_t i = 0; i < count; ++i) sum += scores[i];
      T* const row_weights = weights + (t * s.heads + h) * s.fanout;
      const T* const keep = s.keep ? s.keep + (t * s.heads + h) * s.fanout : nullptr;
      for (int64_t k = 0; k < s.fanout; ++k) row_weights[k] = 0;
      for (int64_t i = 0; i < count; ++i) {
        const T weight = scores[i] / sum;
        row_weights[room.place[i]] = weight;
        scores[i] = keep ? weight * keep[room.place[i]] : weight;
      }
    }
    weigh(room.coefficients, s.heads, room.stride, room.x, l.across, count, room.sums);
    for (int64_t h = 0; h < s.heads; ++h) gather(s, l, room.sums + h * l.across, out + at_head(s, t, h));
  }
}

// A slot's gradient is the sum over heads of what it is scored by and what it is weighed for, each times a coefficient; P of these, and
// then the next, for registers are few.

// rows[i][c] += sum over p of coefficients[p, i] * vectors[p, c], columns [c, end), W at a time.
template <class T, int P, int W = kWide<T>>
void add_rows(const Room<T>& room, const T* coefficients, const T* vectors, T* rows, int64_t count, int64_t c, int64_t end) {
  using V = typename Pack<T, W>::type;
  for (; c + W <= end; c += W) {
    V v[P];
    for (int p = 0; p < P; ++p) v[p] = load<V>(vectors + p * room.layout.across + c);
    for (int64_t i = 0; i < count; ++i) {
      T* const row = rows + room.rows[i] + c;
      V sum = load<V>(row);
      for (int p = 0; p < P; ++p) sum += coefficients[p * room.stride + i] * v[p];
      store(row, sum);
    }
  }
  if constexpr (W > 1) add_rows<T, P, W / 2>(room, coefficients, vectors, rows, count, c, end);
}
template <class T>
void add_rows(const Room<T>& room, int64_t heads, const T* vectors, T* rows, int64_t count, int64_t column, int64_t end) {
  for (int64_t p = 0; p < 2 * heads; p += p + 4 <= 2 * heads ? 4 : 2) {
    const T *const by = room.coefficients + p * room.stride, *const from = vectors + p * room.layout.across;
    if (p + 4 <= 2 * heads) add_rows<T, 4>(room, by, from, rows, count, column, end);
    else add_rows<T, 2>(room, by, from, rows, count, column, end);
  }
}

// Adds the gradients of frequencies and phases, by way of the angles.
template <class T, int P>
void add_turns(const Room<T>& room, const T* coefficients, const T* vectors, int64_t count) {
  using V = typename Pack<T>::type;
  const int64_t clock = room.layout.clock;
  for (int64_t c = 0; c < clock; c += kWide<T>) {
    V v[P], by_frequency = load<V>(room.turns + c), by_phase = load<V>(room.turns + clock + c);
    for (int p = 0; p < P; ++p) v[p] = load<V>(vectors + p * room.layout.across + c);
    for (int64_t i = 0; i < count; ++i) {
      V sum = coefficients[i] * v[0];
      for (int p = 1; p < P; ++p) sum += coefficients[p * room.stride + i] * v[p];
      sum *= load<V>(room.sine + i * clock + c);
      by_phase -= sum;
      by_frequency -= room.elapsed[i] * sum;
    }
    store(room.turns + c, by_frequency);
    store(room.turns + clock + c, by_phase);
  }
}
template <class T>
void add_turns(const Room<T>& room, int64_t heads, const T* vectors, int64_t count) {
  for (int64_t c = 0; c < 2 * room.layout.clock; ++c) room.turns[c] = 0;
  for (int64_t p = 0; p < 2 * heads; p += p + 4 <= 2 * heads ? 4 : 2) {
    const T *const by = room.coefficients + p * room.stride, *const from = vectors + p * room.layout.across;
    if (p + 4 <= 2 * heads) add_turns<T, 4>(room, by, from, count); else add_turns<T, 2>(room, by, from, count);
  }
}

template <class T>
void add_sources(const SlotsGrad<T>& s, const Room<T>& room, int64_t t, int64_t count, int64_t column, int64_t end) {
  for (int64_t i = 0; i < count; ++i) {
    room.rows[i] = s.slot[t * s.fanout + room.place[i]] * s.width;
    ask_for(s.into_source + room.rows[i] + column, end - column, true);
  }
  add_rows(room, s.heads, room.vectors, s.into_source, count, column, end);
}

template <class T>
void backward(const SlotsGrad<T>& s, int64_t begin, int64_t end, T* space, double* partial) {
  Room<T> room(s, space);
  const Layout& l = room.layout;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t count = lay(s, room, t, s.into_clock);
    T* const into = room.vectors + s.heads * l.across;
    for (int64_t h = 0; h < s.heads; ++h) spread(s, l, s.into + at_head(s, t, h), into + h * l.across);
    products(into, s.heads, room.x, l.across, count, room.coefficients, room.stride);
    for (int64_t h = 0; h < s.heads; ++h) {
      T *const scores = room.coefficients + h * room.stride, *const masked_weights = scores + s.heads * room.stride;
      const int64_t at = (t * s.heads + h) * s.fanout;
      T mean = 0;
      for (int64_t i = 0; i < count; ++i) {
        const T weight = s.weights[at + room.place[i]], keep = s.keep ? s.keep[at + room.place[i]] : T(1);
        masked_weights[i] = weight * keep;
        scores[i] *= keep;
        mean += weight * scores[i];
      }
      for (int64_t i = 0; i < count; ++i) scores[i] = s.weights[at + room.place[i]] * (scores[i] - mean);
    }
    if (s.into_query) {
      weigh(room.coefficients, s.heads, room.stride, room.x, l.across, count, room.sums);
      for (int64_t h = 0; h < s.heads; ++h) gather(s, l, room.sums + h * l.across, s.into_query + at_head(s, t, h));
    }
    if (s.into_edge) {
      memset(s.into_edge + t * s.fanout * s.edges, 0, static_cast<size_t>(s.fanout * s.edges) * sizeof(T));
      for (int64_t i = 0; i < count; ++i) room.rows[i] = (t * s.fanout + room.place[i]) * s.edges;
      add_rows(room, s.heads, room.vectors + l.width, s.into_edge, count, 0, s.edges);
    }
    if (s.into_clock) {
      add_turns(room, s.heads, room.vectors + l.width + l.edges, count);
      for (int64_t c = 0; c < 2 * l.clock; ++c) partial[c] += room.turns[c];
    }
    if (s.handed) {
      for (int64_t p = 0; p < 2 * s.heads; ++p) copy(s.handed + (t * 2 * s.heads + p) * s.fanout, room.coefficients + p * room.stride, count);
    } else if (s.into_source) {
      add_sources(s, room, t, count, 0, s.width);
    }
  }
}

// Adds columns of the sources' gradients, from the stored coefficients, in the order of targets and slots: however columns are spread over
// threads, each number is the same sum.
template <class T>
void add_columns(const SlotsGrad<T>& s, int64_t column, int64_t end, T* space) {
  Room<T> room(s, space);
  const Layout& l = room.layout;
  for (int64_t t = 0; t < s.targets; ++t) {
    const int64_t count = find_filled(s, room, t);
    for (int64_t p = 0; p < 2 * s.heads; ++p) {
      const T* const from = p < s.heads ? s.query + at_head(s, t, p) : s.into + at_head(s, t, p - s.heads);
      copy(room.vectors + p * l.across + column, from + column, end - column);
      copy(room.coefficients + p * room.stride, s.handed + (t * 2 * s.heads + p) * s.fanout, count);
    }
    add_sources(s, room, t, count, column, end);
  }
}

}  // namespace

void attend(const Slots<float>& s, int64_t begin, int64_t end, float* room, float* weights, float* out) { forward(s, begin, end, room, weights, out); }
void attend(const Slots<double>& s, int64_t begin, int64_t end, double* room, double* weights, double* out) { forward(s, begin, end, room, weights, out); }
void attend_grad(const SlotsGrad<float>& s, int64_t begin, int64_t end, float* room, double* partial) { backward(s, begin, end, room, partial); }
void attend_grad(const SlotsGrad<double>& s, int64_t begin, int64_t end, double* room, double* partial) { backward(s, begin, end, room, partial); }
void attend_columns(const SlotsGrad<float>& s, int64_t begin, int64_t end, float* room) { add_columns(s, begin, end, room); }
void attend_columns(const SlotsGrad<double>& s, int64_t begin, int64_t end, double* room) { add_columns(s, begin, end, room); }

}  // namespace CS_ISA
}  // namespace cs
