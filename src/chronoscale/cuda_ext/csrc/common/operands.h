// What the kernels work on, as the C ABI hands it over (chronoscale.h says what each array is): the same on the CPU and on CUDA.
#pragma once

#include <cstdint>

namespace cs {

// Sparse rows times a dense matrix: cs_aggregate, cs_increment and cs_weigh. T is what is summed; X is what x is stored in, T or
// uint16_t for bfloat16.
template <class T, class X = T>
struct Rows {
  int64_t rows;
  const int64_t* indptr;
  const int32_t* indices;
  const float* values;     // or null: all ones
  const T* weights;        // in their place, where they must have T's precision; or null
  const X* x;              // [*, width]
  int64_t width;
  T* out;                  // [rows, width]
  const int32_t* targets;  // null for aggregate; else row r is added to sums[targets[r], :]
  const uint8_t* fresh;    // or null; where it is 1, row r replaces its sum instead
  T* sums;
};

// Entries that attention scores: leaky_relu(left[indices[e]] + right[row], slope).
template <class T>
struct Scores {
  int64_t rows;
  const int32_t* targets;  // or null: the rows themselves
  const int64_t* indptr;
  const int32_t* indices;
  const T *left, *right;
  T slope;
};

// As cs_softmax.
template <class T>
struct Softmax : Scores<T> {
  const int8_t* sign;
  const T* base;
  bool running;
  T *weights, *maximum, *denominator;
  uint8_t* held;
};

// As cs_softmax_grad.
template <class T>
struct SoftmaxGrad : Scores<T> {
  const T *weights, *z;
  int64_t width;
  const T *into_total, *into_denominator;
  T *edges, *row;
};

// As cs_slots. X = width + edges + clock.
template <class T>
struct Slots {
  int64_t targets, fanout, heads, width, edges, clock, sources;
  const T *wanted, *source;
  const int64_t* slot;
  const uint8_t* there;
  const T *elapsed, *edge;
  const double *frequency, *phase;  // [padded(clock)], zeros at the end
  double fastest, latest;           // the largest of either, by absolute value
  const T* keep;
  bool by_head;
};

// As cs_slots_grad. handed [targets, 2 * heads, fanout], or null: gradients of scores, then weights, for a pass of their own over the
// sources' columns.
template <class T>
struct SlotsGrad : Slots<T> {
  const T *weights, *into;
  T *into_wanted, *into_source, *into_edge;
  bool into_clock;
  T* handed;
};

// As cs_gates and cs_gates_grad.
template <class T>
struct Gates {
  int64_t rows, hidden;
  const T *given, *kept, *memory;
  const uint8_t* there;
  T* out;
};
template <class T>
struct GatesGrad : Gates<T> {
  const T* into;
  T *to_given, *to_kept, *to_memory;  // the last may be null
};

// As cs_encode; frequency to latest as in Slots.
template <class T>
struct Encoding {
  int64_t rows, clock;
  const T* elapsed;
  const double *frequency, *phase;
  double fastest, latest;
  T *cosine, *sine;
};

// As cs_edge_softmax: of scores, or, where `into` is not null, of its gradient from shares.
template <class T>
struct Shares {
  int64_t rows, entries, heads;
  const int64_t* indptr;
  const T *given, *into;
  T* out;
};

// As cs_gather. I: int32_t or int64_t.
template <class T, class I>
struct Tables {
  int64_t count;
  const I* index;
  int64_t cached_rows;
  const T* cached;
  int64_t sent_rows;
  const T* sent;
  int64_t width;
  T* out;
};

}  // namespace cs
