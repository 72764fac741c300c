// Steps of an LSTM and of a GRU after their products on a CUDA stream (cs_cuda_lstm_step, cs_cuda_gru_step), forward and backward: lanes of
// a row for packs of its columns, one pass over memory. A thread reads all that it needs of a column before it writes there.
#include "../common/operands.h"
#include "row_packs.cuh"

namespace {

using cs::at;
using cs::each_pack;
using cs::kThreads;
using cs::Launch;
using cs::Pack;
using cs::sigmoid;

__device__ int64_t row_at(const int32_t* index, int64_t row) { return index ? index[row] : row; }

// Reads K packs, each `hidden` numbers after the one before.
template <int K, class T, int V>
__device__ void read_packs(Pack<T, V> (&packs)[K], const T* from, int64_t hidden) {
#pragma unroll
  for (int k = 0; k < K; ++k) packs[k] = at<T, V>(from + k * hidden);
}

template <int K, class T, int V>
__device__ void write_packs(T* to, const Pack<T, V> (&packs)[K], int64_t hidden) {
#pragma unroll
  for (int k = 0; k < K; ++k) at<T, V>(to + k * hidden) = packs[k];
}

// Returns the pack at `from`, or zeros.
template <class T, int V>
__device__ Pack<T, V> pack_or_zeros(const T* table, int64_t offset) { return table ? at<T, V>(table + offset) : Pack<T, V>{}; }

// Adds K packs to memory, or writes them there.
template <int K, class T, int V>
__device__ void hand_on(T* to, Pack<T, V> (&packs)[K], int64_t hidden, bool add) {
  if (add) {
#pragma unroll
    for (int k = 0; k < K; ++k) packs[k].add(at<T, V>(to + k * hidden));
  }
  write_packs<K>(to, packs, hidden);
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) lstm_step_kernel(cs::LstmStep<T> s, int lanes) {
  each_pack<V>(s.rows, s.hidden, lanes, [&](int64_t row, int64_t column) {
    const int64_t H = s.hidden, wide = row * 4 * H + column;
    Pack<T, V> gates[4], new_h, new_c = pack_or_zeros<T, V>(s.c, row_at(s.parent, row) * H + column);
    read_packs<4>(gates, s.products + row_at(s.read, row) * 4 * H + column, H);
    if (s.from_state) {
#pragma unroll
      for (int k = 0; k < 4; ++k) gates[k].add(at<T, V>(s.from_state + wide + k * H));
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const T input = sigmoid(gates[0].v[i]), forget = sigmoid(gates[1].v[i]), cell = tanh(gates[2].v[i]), output = sigmoid(gates[3].v[i]);
      new_c.v[i] = forget * new_c.v[i] + input * cell;
      new_h.v[i] = output * tanh(new_c.v[i]);
      gates[0].v[i] = input;
      gates[1].v[i] = forget;
      gates[2].v[i] = cell;
      gates[3].v[i] = output;
    }
    write_packs<4>(s.gates + wide, gates, H);
    at<T, V>(s.new_h + row * H + column) = new_h;
    at<T, V>(s.new_c + row * H + column) = new_c;
  });
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) lstm_step_grad_kernel(cs::LstmStepGrad<T> s, int lanes) {
  each_pack<V>(s.rows, s.hidden, lanes, [&](int64_t row, int64_t column) {
    const int64_t H = s.hidden, wide = row * 4 * H + column, narrow = row * H + column;
    Pack<T, V> gates[4], to_memory = pack_or_zeros<T, V>(s.grad_c, narrow);
    const Pack<T, V> c = pack_or_zeros<T, V>(s.c, row_at(s.parent, row) * H + column), new_c = at<T, V>(s.new_c + narrow);
    const Pack<T, V> grad_h = at<T, V>(s.grad_h + narrow);
    read_packs<4>(gates, s.gates + wide, H);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const T input = gates[0].v[i], forget = gates[1].v[i], cell = gates[2].v[i], output = gates[3].v[i];
      const T shown = tanh(new_c.v[i]), memory = to_memory.v[i] + grad_h.v[i] * output * (1 - shown * shown);
      gates[0].v[i] = memory * cell * input * (1 - input);
      gates[1].v[i] = memory * c.v[i] * forget * (1 - forget);
      gates[2].v[i] = memory * input * (1 - cell * cell);
      gates[3].v[i] = grad_h.v[i] * shown * output * (1 - output);
      to_memory.v[i] = memory * forget;
    }
    write_packs<4>(s.grad_from_state + wide, gates, H);
    if (s.grad_products) hand_on<4>(s.grad_products + row_at(s.read, row) * 4 * H + column, gates, H, true);
    if (s.grad_old_c) at<T, V>(s.grad_old_c + narrow) = to_memory;
  });
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) gru_step_kernel(cs::GruStep<T> s, int lanes) {
  each_pack<V>(s.rows, s.hidden, lanes, [&](int64_t row, int64_t column) {
    const int64_t H = s.hidden;
    Pack<T, V> products[3], saved[4], state = pack_or_zeros<T, V>(s.h, row_at(s.parent, row) * H + column);
    read_packs<3>(products, s.products + row_at(s.read, row) * 3 * H + column, H);
    Pack<T, V> from_state[3];
    read_packs<3>(from_state, s.from_state + row * s.stride + column, H);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const T reset = sigmoid(products[0].v[i] + from_state[0].v[i]), stay = sigmoid(products[1].v[i] + from_state[1].v[i]);
      const T candidate = tanh(products[2].v[i] + reset * from_state[2].v[i]);
      saved[0].v[i] = reset;
      saved[1].v[i] = stay;
      saved[2].v[i] = candidate;
      saved[3].v[i] = from_state[2].v[i];
      state.v[i] = candidate + stay * (state.v[i] - candidate);
    }
    write_packs<4>(s.saved + row * 4 * H + column, saved, H);
    at<T, V>(s.new_h + row * H + column) = state;
  });
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) gru_step_grad_kernel(cs::GruStepGrad<T> s, int lanes) {
  each_pack<V>(s.rows, s.hidden, lanes, [&](int64_t row, int64_t column) {
    const int64_t H = s.hidden, narrow = row * H + column;
    Pack<T, V> saved[4], to_state[3], to_products[3], to_h;
    const Pack<T, V> h = pack_or_zeros<T, V>(s.h, row_at(s.parent, row) * H + column), grad_out = at<T, V>(s.grad_out + narrow);
    read_packs<4>(saved, s.saved + row * 4 * H + column, H);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const T reset = saved[0].v[i], stay = saved[1].v[i], candidate = saved[2].v[i];
      const T to_candidate = grad_out.v[i] * (1 - stay) * (1 - candidate * candidate);
      to_products[0].v[i] = to_state[0].v[i] = to_candidate * saved[3].v[i] * reset * (1 - reset);
      to_products[1].v[i] = to_state[1].v[i] = grad_out.v[i] * (h.v[i] - candidate) * stay * (1 - stay);
      to_products[2].v[i] = to_candidate;
      to_state[2].v[i] = to_candidate * reset;
      to_h.v[i] = grad_out.v[i] * stay;
    }
    write_packs<3>(s.grad_from_state + row * 3 * H + column, to_state, H);
    if (s.grad_products) hand_on<3>(s.grad_products + row_at(s.read, row) * 3 * H + column, to_products, H, s.add);
    if (s.grad_h) at<T, V>(s.grad_h + narrow) = to_h;
  });
}

// Starts a kernel for a step of R rows whose operands are there; `pointers`: all whose rows are read or written in packs.
#define CS_RUN(Step, kernel, there, ...)                                                                                 \
  template <class T>                                                                                                     \
  int run(const cs::Step<T>& s, const Launch& how) {                                                                     \
    if (s.rows < 0 || s.hidden < 0) return CS_ERROR_ARGUMENT;                                                            \
    if (s.rows == 0 || s.hidden == 0) return CS_OK;                                                                      \
    if (!(there)) return CS_ERROR_ARGUMENT;                                                                              \
    return cs::launch_packs<T>(s.rows, s.hidden, {__VA_ARGS__}, how.device, [&](unsigned blocks, int lanes, auto wide) { \
      kernel<T, wide.value><<<blocks, kThreads, 0, how.on()>>>(s, lanes);                                                \
    });                                                                                                                  \
  }
CS_RUN(LstmStep, lstm_step_kernel, s.products && s.gates && s.new_h && s.new_c, s.products, s.from_state, s.c, s.gates, s.new_h, s.new_c)
CS_RUN(LstmStepGrad, lstm_step_grad_kernel, s.gates && s.new_c && s.grad_h && s.grad_from_state, s.gates, s.c, s.new_c, s.grad_h, s.grad_c,
       s.grad_products, s.grad_from_state, s.grad_old_c)
CS_RUN(GruStep, gru_step_kernel, s.products && s.from_state && s.saved && s.new_h, s.products, s.from_state, s.h, s.saved, s.new_h)
CS_RUN(GruStepGrad, gru_step_grad_kernel, s.saved && s.grad_out && s.grad_from_state, s.saved, s.h, s.grad_out, s.grad_products,
       s.grad_from_state, s.grad_h)
#undef CS_RUN

}  // namespace

#define CS_HOW {entries, counters, partial, cuts, cut_count, device, stream}
#define CS_DEFINE(kind, T)                                                                                                                    \
  int cs_cuda_lstm_step_##kind(CS_LSTM_STEP(T), CS_CUDA_LAUNCH) {                                                                             \
    return run(cs::LstmStep<T>{rows, hidden, products, read, from_state, c, parent, gates, new_h, new_c}, CS_HOW);                            \
  }                                                                                                                                           \
  int cs_cuda_lstm_step_grad_##kind(CS_LSTM_STEP_GRAD(T), CS_CUDA_LAUNCH) {                                                                   \
    return run(cs::LstmStepGrad<T>{rows, hidden, gates, c, parent, new_c, grad_h, grad_c, read, grad_products, grad_from_state, grad_old_c},  \
               CS_HOW);                                                                                                                       \
  }                                                                                                                                           \
  int cs_cuda_gru_step_##kind(CS_GRU_STEP(T), CS_CUDA_LAUNCH) {                                                                               \
    return run(cs::GruStep<T>{rows, hidden, products, read, from_state, stride, h, parent, saved, new_h}, CS_HOW);                            \
  }                                                                                                                                           \
  int cs_cuda_gru_step_grad_##kind(CS_GRU_STEP_GRAD(T), CS_CUDA_LAUNCH) {                                                                     \
    return run(cs::GruStepGrad<T>{rows, hidden, saved, h, parent, grad_out, read, add != 0, grad_products, grad_from_state, grad_h}, CS_HOW); \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
#undef CS_HOW
