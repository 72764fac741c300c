// Gates of a GRU on a CUDA stream (cs_cuda_gates), forward and backward: lanes of a row for packs of its columns, one pass over memory.
#include "../common/operands.h"
#include "row_packs.cuh"

namespace {

using cs::at;
using cs::each_pack;
using cs::kThreads;
using cs::Launch;
using cs::Pack;
using cs::sigmoid;

// Gates of one hidden unit.
template <class T>
struct Gate {
  T reset, stay, candidate;

  __device__ Gate(T from_input_r, T from_input_z, T from_input_n, T from_memory_r, T from_memory_z, T from_memory_n)
      : reset(sigmoid(from_input_r + from_memory_r)), stay(sigmoid(from_input_z + from_memory_z)),
        candidate(tanh(from_input_n + reset * from_memory_n)) {}
};

template <class T, int V>
__global__ void __launch_bounds__(kThreads) gates_kernel(cs::Gates<T> g, int lanes) {
  each_pack<V>(g.rows, g.hidden, lanes, [&](int64_t row, int64_t column) {
    const int64_t H = g.hidden, wide = row * 3 * H + column;
    Pack<T, V> memory = at<T, V>(g.memory + row * H + column);
    if (g.mask[row]) {
      const Pack<T, V> from_input[3] = {
          at<T, V>(g.from_input + wide), at<T, V>(g.from_input + wide + H), at<T, V>(g.from_input + wide + 2 * H)};
      const Pack<T, V> from_memory[3] = {
          at<T, V>(g.from_memory + wide), at<T, V>(g.from_memory + wide + H), at<T, V>(g.from_memory + wide + 2 * H)};
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const Gate<T> gate(from_input[0].v[i], from_input[1].v[i], from_input[2].v[i],
                           from_memory[0].v[i], from_memory[1].v[i], from_memory[2].v[i]);
        memory.v[i] = gate.candidate + gate.stay * (memory.v[i] - gate.candidate);
      }
    }
    at<T, V>(g.out + row * H + column) = memory;
  });
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) gates_grad_kernel(cs::GatesGrad<T> g, int lanes) {
  each_pack<V>(g.rows, g.hidden, lanes, [&](int64_t row, int64_t column) {
    const int64_t H = g.hidden, wide = row * 3 * H + column;
    Pack<T, V> into = at<T, V>(g.into + row * H + column), grad_from_input[3] = {}, grad_from_memory{};
    if (g.mask[row]) {
      const Pack<T, V> memory = at<T, V>(g.memory + row * H + column);
      const Pack<T, V> from_input[3] = {
          at<T, V>(g.from_input + wide), at<T, V>(g.from_input + wide + H), at<T, V>(g.from_input + wide + 2 * H)};
      const Pack<T, V> from_memory[3] = {
          at<T, V>(g.from_memory + wide), at<T, V>(g.from_memory + wide + H), at<T, V>(g.from_memory + wide + 2 * H)};
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const T memory_candidate = from_memory[2].v[i];
        const Gate<T> gate(from_input[0].v[i], from_input[1].v[i], from_input[2].v[i],
                           from_memory[0].v[i], from_memory[1].v[i], memory_candidate);
        const T to_candidate = into.v[i] * (1 - gate.stay) * (1 - gate.candidate * gate.candidate);
        grad_from_input[0].v[i] = to_candidate * memory_candidate * gate.reset * (1 - gate.reset);
        grad_from_input[1].v[i] = into.v[i] * (memory.v[i] - gate.candidate) * gate.stay * (1 - gate.stay);
        grad_from_input[2].v[i] = to_candidate;
        grad_from_memory.v[i] = to_candidate * gate.reset;
        into.v[i] *= gate.stay;
      }
    }
#pragma unroll
    for (int third = 0; third < 3; ++third) {
      at<T, V>(g.grad_from_input + wide + third * H) = grad_from_input[third];
      at<T, V>(g.grad_from_memory + wide + third * H) = third < 2 ? grad_from_input[third] : grad_from_memory;
    }
    if (g.grad_memory) at<T, V>(g.grad_memory + row * H + column) = into;
  });
}

template <class T>
bool is_valid(const cs::Gates<T>& g) {
  return g.rows >= 0 && g.hidden >= 0 && (g.rows == 0 || g.hidden == 0 || (g.from_input && g.from_memory && g.memory && g.mask));
}

template <class T>
int run(const cs::Gates<T>& g, const Launch& how) {
  if (!is_valid(g)) return CS_ERROR_ARGUMENT;
  if (g.rows == 0 || g.hidden == 0) return CS_OK;
  if (!g.out) return CS_ERROR_ARGUMENT;
  return cs::launch_packs<T>(g.rows, g.hidden, {g.from_input, g.from_memory, g.memory, g.out}, how.device, [&](unsigned blocks, int lanes, auto wide) {
    gates_kernel<T, wide.value><<<blocks, kThreads, 0, how.on()>>>(g, lanes);
  });
}

template <class T>
int run(const cs::GatesGrad<T>& g, const Launch& how) {
  if (!is_valid(g)) return CS_ERROR_ARGUMENT;
  if (g.rows == 0 || g.hidden == 0) return CS_OK;
  if (!g.into || !g.grad_from_input || !g.grad_from_memory) return CS_ERROR_ARGUMENT;
  return cs::launch_packs<T>(g.rows, g.hidden, {g.from_input, g.from_memory, g.memory, g.into, g.grad_from_input, g.grad_from_memory, g.grad_memory},
                             how.device, [&](unsigned blocks, int lanes, auto wide) {
    gates_grad_kernel<T, wide.value><<<blocks, kThreads, 0, how.on()>>>(g, lanes);
  });
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                                                             \
  int cs_cuda_gates_##kind(CS_GATES(T), T* out, CS_CUDA_LAUNCH) {                                                                                      \
    return run(cs::Gates<T>{rows, hidden, from_input, from_memory, memory, mask, out}, {entries, counters, partial, cuts, cut_count, device, stream}); \
  }                                                                                                                                                    \
  int cs_cuda_gates_grad_##kind(CS_GATES(T), const T* into, T* grad_from_input, T* grad_from_memory, T* grad_memory, CS_CUDA_LAUNCH) {                 \
    return run(cs::GatesGrad<T>{{rows, hidden, from_input, from_memory, memory, mask, nullptr}, into, grad_from_input, grad_from_memory, grad_memory}, \
               {entries, counters, partial, cuts, cut_count, device, stream});                                                                         \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
