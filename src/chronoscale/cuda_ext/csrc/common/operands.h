// Operands of the kernels, the same on the CPU and on CUDA. chronoscale.h defines every array; an array `into_x` is the gradient of `x`,
// and `into` that of the result.
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

// Scores of attention's entries: leaky_relu(left[indices[e]] + right[row], slope).
template <class T>
struct Scores {
  int64_t rows;
  const int32_t* targets;  // or null: the rows themselves
  const int64_t* indptr;
  const int32_t* indices;
  const T *left, *right;
  T slope;
};

// Operands of cs_softmax.
template <class T>
struct Softmax : Scores<T> {
  const int8_t* sign;
  const T* base;
  bool running;
  T *weights, *maximum, *denominator;
  uint8_t* removed_maximum;
};

// Operands of cs_softmax_grad.
template <class T>
struct SoftmaxGrad : Scores<T> {
  const T *weights, *z;
  int64_t width;
  const T *into_total, *into_denominator;
  T *edges, *row;
};

// Operands of cs_slots. X = width + edges + clock.
template <class T>
struct Slots {
  int64_t targets, fanout, heads, width, edges, clock, sources;
  const T *query, *source;
  const int64_t* slot;
  const uint8_t* mask;
  const T *elapsed, *edge;
  const double *frequency, *phase;  // [padded(clock)], zeros at the end
  double fastest, latest;           // the largest of either, by absolute value
  const T* keep;
  bool by_head;
};

// Operands of cs_slots_grad. handed [targets, 2 * heads, fanout], or null: gradients of scores, then weights, for a pass of their own over
// the sources' columns.
template <class T>
struct SlotsGrad : Slots<T> {
  const T *weights, *into;
  T *into_query, *into_source, *into_edge;
  bool into_clock;
  T* handed;
};

// Operands of cs_gates and cs_gates_grad.
template <class T>
struct Gates {
  int64_t rows, hidden;
  const T *from_input, *from_memory, *memory;
  const uint8_t* mask;
  T* out;
};
template <class T>
struct GatesGrad : Gates<T> {
  const T* into;
  T *grad_from_input, *grad_from_memory, *grad_memory;  // the last may be null
};

// Operands of cs_lstm_step and cs_lstm_step_grad.
template <class T>
struct LstmStep {
  int64_t rows, hidden;
  const T* products;
  const int32_t* read;
  const T *from_state, *c;
  const int32_t* parent;
  T *gates, *new_h, *new_c;
};
template <class T>
struct LstmStepGrad {
  int64_t rows, hidden;
  const T *gates, *c;
  const int32_t* parent;
  const T *new_c, *grad_h, *grad_c;
  const int32_t* read;
  T *grad_products, *grad_from_state, *grad_old_c;
};

// Operands of cs_gru_step and cs_gru_step_grad. stride: numbers from one row of from_state to the next, 3 * hidden, or 0: one row for all.
template <class T>
struct GruStep {
  int64_t rows, hidden;
  const T* products;
  const int32_t* read;
  const T* from_state;
  int64_t stride;
  const T* h;
  const int32_t* parent;
  T *saved, *new_h;
};
template <class T>
struct GruStepGrad {
  int64_t rows, hidden;
  const T *saved, *h;
  const int32_t* parent;
  const T* grad_out;
  const int32_t* read;
  bool add;
  T *grad_products, *grad_from_state, *grad_h;
};

// Operands of cs_encode; frequency to latest as in Slots.
template <class T>
struct Encoding {
  int64_t rows, clock;
  const T* elapsed;
  const double *frequency, *phase;
  double fastest, latest;
  T *cosine, *sine;
};

// Operands of cs_edge_softmax: input are scores, or, where `into` is not null, shares, for the gradient.
template <class T>
struct Shares {
  int64_t rows, entries, heads;
  const int64_t* indptr;
  const T *input, *into;
  T* out;
};

// Operands of cs_gather. I: int32_t or int64_t.
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
