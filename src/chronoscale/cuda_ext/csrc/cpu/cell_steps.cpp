// Steps of an LSTM and of a GRU after their products, forward and backward, row by row. As in rows.cpp, CS_ISA names the instruction set this
// copy is compiled for, CS_VECTOR its register in bytes, and nothing from the standard library may be instantiated here.
//
// No row is __restrict: results may take the place of operands, number by number. `omp simd` says that numbers are independent.
#include "activations.h"
#include "kernels.h"

namespace cs {
namespace CS_ISA {
namespace {

inline int64_t at(const int32_t* index, int64_t row) { return index ? index[row] : row; }

// Returns row `row` of a table, or zeros where there is no table.
template <class T>
inline const T* row_of(const T* table, int64_t row, int64_t width, const T* zeros) { return table ? table + row * width : zeros; }

template <class T>
void forward(const LstmStep<T>& s, int64_t begin, int64_t end, const T* zeros) {
  const int64_t H = s.hidden;
  for (int64_t row = begin; row < end; ++row) {
    const T *const products = s.products + at(s.read, row) * 4 * H, *const from_state = row_of(s.from_state, row, 4 * H, zeros);
    const T* const c = row_of(s.c, at(s.parent, row), H, zeros);
    T *const gates = s.gates + row * 4 * H, *const new_h = s.new_h + row * H, *const new_c = s.new_c + row * H;
#pragma omp simd
    for (int64_t i = 0; i < H; ++i) {
      const T input = sigmoid(products[i] + from_state[i]), forget = sigmoid(products[H + i] + from_state[H + i]);
      const T cell = hyperbolic(products[2 * H + i] + from_state[2 * H + i]), output = sigmoid(products[3 * H + i] + from_state[3 * H + i]);
      const T memory = forget * c[i] + input * cell;
      gates[i] = input;
      gates[H + i] = forget;
      gates[2 * H + i] = cell;
      gates[3 * H + i] = output;
      new_c[i] = memory;
      new_h[i] = output * hyperbolic(memory);
    }
  }
}

template <bool kToMemory, class T>
void backward(const LstmStepGrad<T>& s, int64_t begin, int64_t end, const T* zeros) {
  const int64_t H = s.hidden;
  for (int64_t row = begin; row < end; ++row) {
    const T *const gates = s.gates + row * 4 * H, *const c = row_of(s.c, at(s.parent, row), H, zeros);
    const T *const new_c = s.new_c + row * H, *const grad_h = s.grad_h + row * H, *const grad_c = row_of(s.grad_c, row, H, zeros);
    T *const to_gates = s.grad_from_state + row * 4 * H, *const to_memory = kToMemory ? s.grad_old_c + row * H : nullptr;
#pragma omp simd
    for (int64_t i = 0; i < H; ++i) {
      const T input = gates[i], forget = gates[H + i], cell = gates[2 * H + i], output = gates[3 * H + i];
      const T shown = hyperbolic(new_c[i]), memory = grad_c[i] + grad_h[i] * output * (1 - shown * shown);
      to_gates[i] = memory * cell * input * (1 - input);
      to_gates[H + i] = memory * c[i] * forget * (1 - forget);
      to_gates[2 * H + i] = memory * input * (1 - cell * cell);
      to_gates[3 * H + i] = grad_h[i] * shown * output * (1 - output);
      if (kToMemory) to_memory[i] = memory * forget;
    }
    if (!s.grad_products) continue;
    T* const to_products = s.grad_products + at(s.read, row) * 4 * H;
#pragma omp simd
    for (int64_t i = 0; i < 4 * H; ++i) to_products[i] += to_gates[i];
  }
}

template <class T>
void forward(const GruStep<T>& s, int64_t begin, int64_t end, const T* zeros) {
  const int64_t H = s.hidden;
  for (int64_t row = begin; row < end; ++row) {
    const T *const products = s.products + at(s.read, row) * 3 * H, *const from_state = s.from_state + row * s.stride;
    const T* const h = row_of(s.h, at(s.parent, row), H, zeros);
    T *const saved = s.saved + row * 4 * H, *const new_h = s.new_h + row * H;
#pragma omp simd
    for (int64_t i = 0; i < H; ++i) {
      const T reset = sigmoid(products[i] + from_state[i]), stay = sigmoid(products[H + i] + from_state[H + i]);
      const T state_candidate = from_state[2 * H + i], candidate = hyperbolic(products[2 * H + i] + reset * state_candidate);
      saved[i] = reset;
      saved[H + i] = stay;
      saved[2 * H + i] = candidate;
      saved[3 * H + i] = state_candidate;
      new_h[i] = candidate + stay * (h[i] - candidate);
    }
  }
}

template <bool kAdd, class T>
void backward(const GruStepGrad<T>& s, int64_t begin, int64_t end, const T* zeros) {
  const int64_t H = s.hidden;
  for (int64_t row = begin; row < end; ++row) {
    const T *const saved = s.saved + row * 4 * H, *const h = row_of(s.h, at(s.parent, row), H, zeros), *const grad_out = s.grad_out + row * H;
    T* const to_state = s.grad_from_state + row * 3 * H;
    T* const to_products = s.grad_products ? s.grad_products + at(s.read, row) * 3 * H : nullptr;
#pragma omp simd
    for (int64_t i = 0; i < H; ++i) {
      const T reset = saved[i], stay = saved[H + i], candidate = saved[2 * H + i];
      const T to_candidate = grad_out[i] * (1 - stay) * (1 - candidate * candidate);
      to_state[i] = to_candidate * saved[3 * H + i] * reset * (1 - reset);
      to_state[H + i] = grad_out[i] * (h[i] - candidate) * stay * (1 - stay);
      to_state[2 * H + i] = to_candidate * reset;
    }
    if (to_products) {
#pragma omp simd
      for (int64_t i = 0; i < H; ++i) {
        const T candidate = saved[2 * H + i], to_candidate = grad_out[i] * (1 - saved[H + i]) * (1 - candidate * candidate);
        to_products[i] = to_state[i] + (kAdd ? to_products[i] : 0);
        to_products[H + i] = to_state[H + i] + (kAdd ? to_products[H + i] : 0);
        to_products[2 * H + i] = to_candidate + (kAdd ? to_products[2 * H + i] : 0);
      }
    }
    if (!s.grad_h) continue;
#pragma omp simd
    for (int64_t i = 0; i < H; ++i) s.grad_h[row * H + i] = grad_out[i] * saved[H + i];
  }
}

}  // namespace

#define CS_DEFINE(T)                                                                                                  \
  void lstm_step(const LstmStep<T>& s, int64_t begin, int64_t end, const T* zeros) { forward(s, begin, end, zeros); } \
  void lstm_step_grad(const LstmStepGrad<T>& s, int64_t begin, int64_t end, const T* zeros) {                         \
    s.grad_old_c ? backward<true>(s, begin, end, zeros) : backward<false>(s, begin, end, zeros);                      \
  }                                                                                                                   \
  void gru_step(const GruStep<T>& s, int64_t begin, int64_t end, const T* zeros) { forward(s, begin, end, zeros); }   \
  void gru_step_grad(const GruStepGrad<T>& s, int64_t begin, int64_t end, const T* zeros) {                           \
    s.add ? backward<true>(s, begin, end, zeros) : backward<false>(s, begin, end, zeros);                             \
  }
CS_DEFINE(float)
CS_DEFINE(double)
#undef CS_DEFINE

}  // namespace CS_ISA
}  // namespace cs
