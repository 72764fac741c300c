// Kernels that compute row by row, the gates of a GRU, steps of recurrent cells and encodings of elapsed times: blocks of rows are tasks of the
// thread pool.
#include <algorithm>
#include <vector>

#include "clock.h"
#include "kernels.h"
#include "pool.h"

namespace {

using cs::Encoding;
using cs::Gates;
using cs::GatesGrad;
using cs::padded;

constexpr int64_t kBlock = 64;                    // rows of one task
constexpr int64_t kWorthHelp = int64_t{1} << 16;  // numbers

// Calls body(begin, end, worker) for blocks of rows.
template <class F>
void blocks(int64_t rows, int threads, F f) {
  auto body = [&](int64_t block, int worker) { f(block * kBlock, std::min(rows, (block + 1) * kBlock), worker); };
  cs::parallel((rows + kBlock - 1) / kBlock, threads, body);
}

int limit(int64_t numbers) { return numbers < kWorthHelp ? 1 : cs::threads(); }

template <class T>
bool fits(const Gates<T>& g) { return g.from_input && g.from_memory && g.memory && g.mask; }

template <class T>
int run(const Gates<T>& g) {
  if (g.rows < 0 || g.hidden < 0) return CS_ERROR_ARGUMENT;
  if (g.rows == 0 || g.hidden == 0) return CS_OK;
  if (!fits(g) || !g.out) return CS_ERROR_ARGUMENT;
  blocks(g.rows, limit(g.rows * g.hidden), [&](int64_t begin, int64_t end, int) { CS_CALL(gates, g, begin, end); });
  return CS_OK;
}

template <class T>
int run(const GatesGrad<T>& g) {
  if (g.rows < 0 || g.hidden < 0) return CS_ERROR_ARGUMENT;
  if (g.rows == 0 || g.hidden == 0) return CS_OK;
  if (!fits(g) || !(g.into && g.grad_from_input && g.grad_from_memory)) return CS_ERROR_ARGUMENT;
  blocks(g.rows, limit(g.rows * g.hidden), [&](int64_t begin, int64_t end, int) { CS_CALL(gates_grad, g, begin, end); });
  return CS_OK;
}

template <class T>
bool fits(const cs::LstmStep<T>& s) { return s.products && s.gates && s.new_h && s.new_c; }
template <class T>
bool fits(const cs::LstmStepGrad<T>& s) { return s.gates && s.new_c && s.grad_h && s.grad_from_state; }
template <class T>
bool fits(const cs::GruStep<T>& s) { return s.products && s.from_state && s.saved && s.new_h; }
template <class T>
bool fits(const cs::GruStepGrad<T>& s) { return s.saved && s.grad_out && s.grad_from_state; }

// Runs a step of a recurrent cell: f(begin, end, zeros) for blocks of rows.
template <class T, class Step, class F>
int run_step(const Step& s, F f) {
  if (s.rows < 0 || s.hidden < 0) return CS_ERROR_ARGUMENT;
  if (s.rows == 0 || s.hidden == 0) return CS_OK;
  if (!fits(s)) return CS_ERROR_ARGUMENT;
  const std::vector<T> zeros(static_cast<size_t>(4 * s.hidden));
  blocks(s.rows, limit(s.rows * s.hidden), [&](int64_t begin, int64_t end, int) { f(begin, end, zeros.data()); });
  return CS_OK;
}

#define CS_RUN(step)                                                                                                 \
  cs::guarded([&] {                                                                                                  \
    return run_step<T>(s, [&](int64_t begin, int64_t end, const T* zeros) { CS_CALL(step, s, begin, end, zeros); }); \
  })
template <class T>
int run(const cs::LstmStep<T>& s) { return CS_RUN(lstm_step); }
template <class T>
int run(const cs::LstmStepGrad<T>& s) { return CS_RUN(lstm_step_grad); }
template <class T>
int run(const cs::GruStep<T>& s) { return CS_RUN(gru_step); }
template <class T>
int run(const cs::GruStepGrad<T>& s) { return CS_RUN(gru_step_grad); }
#undef CS_RUN

template <class T>
int run(Encoding<T> e, const T* frequency, const T* phase) {
  if (e.rows < 0 || e.clock < 0) return CS_ERROR_ARGUMENT;
  if (e.rows == 0 || e.clock == 0) return CS_OK;
  if (!e.elapsed || !frequency || !phase || !e.cosine) return CS_ERROR_ARGUMENT;
  const cs::Clock clock(e, frequency, phase);
  const int threads = limit(e.rows * e.clock);
  const int64_t each = 4 * padded<T>(e.clock);
  std::vector<T> rooms(static_cast<size_t>(threads * each));
  blocks(e.rows, threads, [&](int64_t begin, int64_t end, int worker) { CS_CALL(encode, e, begin, end, rooms.data() + worker * each); });
  return CS_OK;
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                                                      \
  int cs_gates_##kind(CS_GATES(T), T* out) {                                                                                                    \
    return cs::guarded([&] { return run(Gates<T>{rows, hidden, from_input, from_memory, memory, mask, out}); });                                \
  }                                                                                                                                             \
  int cs_gates_grad_##kind(CS_GATES(T), const T* into, T* grad_from_input, T* grad_from_memory, T* grad_memory) {                               \
    const GatesGrad<T> g{{rows, hidden, from_input, from_memory, memory, mask, nullptr}, into, grad_from_input, grad_from_memory, grad_memory}; \
    return cs::guarded([&] { return run(g); });                                                                                                 \
  }                                                                                                                                             \
  int cs_lstm_step_##kind(CS_LSTM_STEP(T)) {                                                                                                    \
    return run(cs::LstmStep<T>{rows, hidden, products, read, from_state, c, parent, gates, new_h, new_c});                                      \
  }                                                                                                                                             \
  int cs_lstm_step_grad_##kind(CS_LSTM_STEP_GRAD(T)) {                                                                                          \
    return run(cs::LstmStepGrad<T>{rows, hidden, gates, c, parent, new_c, grad_h, grad_c, read, grad_products, grad_from_state, grad_old_c});   \
  }                                                                                                                                             \
  int cs_gru_step_##kind(CS_GRU_STEP(T)) {                                                                                                      \
    return run(cs::GruStep<T>{rows, hidden, products, read, from_state, stride, h, parent, saved, new_h});                                      \
  }                                                                                                                                             \
  int cs_gru_step_grad_##kind(CS_GRU_STEP_GRAD(T)) {                                                                                            \
    return run(cs::GruStepGrad<T>{rows, hidden, saved, h, parent, grad_out, read, add != 0, grad_products, grad_from_state, grad_h});           \
  }                                                                                                                                             \
  int cs_encode_##kind(int64_t rows, int64_t clock, const T* elapsed, const T* frequency, const T* phase, T* cosine, T* sine) {                 \
    return cs::guarded([&] { return run(Encoding<T>{rows, clock, elapsed, nullptr, nullptr, 0, 0, cosine, sine}, frequency, phase); });         \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
