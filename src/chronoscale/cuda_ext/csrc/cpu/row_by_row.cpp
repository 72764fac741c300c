// Kernels that compute row by row, the gates of a GRU and encodings of elapsed times: blocks of rows are tasks of the thread pool.
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
  int cs_encode_##kind(int64_t rows, int64_t clock, const T* elapsed, const T* frequency, const T* phase, T* cosine, T* sine) {                 \
    return cs::guarded([&] { return run(Encoding<T>{rows, clock, elapsed, nullptr, nullptr, 0, 0, cosine, sine}, frequency, phase); });         \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
