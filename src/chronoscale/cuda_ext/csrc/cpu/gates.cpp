// Gates of a GRU, forward and backward, row by row. As in rows.cpp, CS_ISA names the instruction set this copy is compiled for, CS_VECTOR
// its register in bytes, and nothing from the standard library may be instantiated here.
#include "activations.h"
#include "kernels.h"
#include "vectors.h"

namespace cs {
namespace CS_ISA {
namespace {

template <class T>
void forward(const Gates<T>& g, int64_t begin, int64_t end) {
  const int64_t H = g.hidden;
  for (int64_t row = begin; row < end; ++row) {
    const T *const __restrict from_input = g.from_input + row * 3 * H, *const __restrict from_memory = g.from_memory + row * 3 * H;
    const T* const __restrict memory = g.memory + row * H;
    T* const __restrict out = g.out + row * H;
    if (!g.mask[row]) {
      copy(out, memory, H);
      continue;
    }
#pragma omp simd
    for (int64_t c = 0; c < H; ++c) {
      const T reset = sigmoid(from_input[c] + from_memory[c]), stay = sigmoid(from_input[H + c] + from_memory[H + c]);
      const T candidate = hyperbolic(from_input[2 * H + c] + reset * from_memory[2 * H + c]);
      out[c] = candidate + stay * (memory[c] - candidate);
    }
  }
}

template <class T>
void backward(const GatesGrad<T>& g, int64_t begin, int64_t end) {
  const int64_t H = g.hidden;
  for (int64_t row = begin; row < end; ++row) {
    const T *const __restrict from_input = g.from_input + row * 3 * H, *const __restrict from_memory = g.from_memory + row * 3 * H;
    const T *const __restrict memory = g.memory + row * H, *const __restrict into = g.into + row * H;
    T *const __restrict grad_from_input = g.grad_from_input + row * 3 * H,
             *const __restrict grad_from_memory = g.grad_from_memory + row * 3 * H;
    if (!g.mask[row]) {
      for (int64_t c = 0; c < 3 * H; ++c) grad_from_input[c] = grad_from_memory[c] = 0;
      if (g.grad_memory) copy(g.grad_memory + row * H, into, H);
      continue;
    }
#pragma omp simd  // GCC would not see that the thirds of a row are apart
    for (int64_t c = 0; c < H; ++c) {
      const T reset = sigmoid(from_input[c] + from_memory[c]), stay = sigmoid(from_input[H + c] + from_memory[H + c]),
              memory_candidate = from_memory[2 * H + c];
      const T candidate = hyperbolic(from_input[2 * H + c] + reset * memory_candidate);
      const T to_candidate = into[c] * (1 - stay) * (1 - candidate * candidate);
      const T to_reset = to_candidate * memory_candidate * reset * (1 - reset);
      const T to_stay = into[c] * (memory[c] - candidate) * stay * (1 - stay);
      grad_from_input[c] = grad_from_memory[c] = to_reset;
      grad_from_input[H + c] = grad_from_memory[H + c] = to_stay;
      grad_from_input[2 * H + c] = to_candidate;
      grad_from_memory[2 * H + c] = to_candidate * reset;
    }
    if (!g.grad_memory) continue;
    for (int64_t c = 0; c < H; ++c) g.grad_memory[row * H + c] = into[c] * sigmoid(from_input[H + c] + from_memory[H + c]);
  }
}

}  // namespace

#define CS_DEFINE(T)                                                                    \
  void gates(const Gates<T>& g, int64_t begin, int64_t end) { forward(g, begin, end); } \
  void gates_grad(const GatesGrad<T>& g, int64_t begin, int64_t end) { backward(g, begin, end); }
CS_DEFINE(float)
CS_DEFINE(double)
#undef CS_DEFINE

}  // namespace CS_ISA
}  // namespace cs
