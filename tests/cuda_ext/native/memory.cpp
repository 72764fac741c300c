// Every allocation of every call fails once: the first, the second, and so on, alone or with all that follow. A call then says
// CS_ERROR_MEMORY; it neither throws nor ends the process, on whatever thread. The first call alone may do without what is not to be
// had, for it starts the helpers: then it returns what it returns otherwise.
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "chronoscale.h"

namespace {

std::atomic<long> left{-1};  // allocations before the one that fails; negative: none does
std::atomic<bool> after{false}, failed{false};

}  // namespace

// The library has an operator new of its own (libstdc++ is linked into it), which asks here.
extern "C" void* __libc_malloc(std::size_t);
extern "C" void* malloc(std::size_t bytes) {
  const long at = left.load() >= 0 || after ? left.fetch_sub(1) : -1;
  if (at != 0 && (at > 0 || !after)) return __libc_malloc(bytes);
  failed = true;
  errno = ENOMEM;
  return nullptr;
}

template <class T>
using Column = std::vector<T>;

int faults = 0;
bool helped = false;  // the helpers are there

// `call` gives a status and leaves what it computed in `result`.
template <class T>
void starve(const char* name, Column<T>& result, const std::function<int()>& call) {
  const Column<T> empty = result;
  cs_set_threads(1);  // the helpers' own memory is among what is not to be had later
  if (call() != CS_OK) {
    std::printf("%s fails by itself\n", name);
    ++faults;
    return;
  }
  cs_set_threads(3);
  const Column<T> expected = result;
  long refused = 0;
  for (const bool all : {false, true}) {
    for (long k = 0;; ++k) {
      result = empty;
      failed = false;
      left = k;
      after = all;
      const int status = call();
      after = false;
      left = -1;
      if (!failed) break;
      refused += status == CS_ERROR_MEMORY;
      if (status == CS_OK ? helped || result != expected : status != CS_ERROR_MEMORY) {
        std::printf("%s, allocation %ld%s: status %d\n", name, k, all ? " and after" : "", status);
        ++faults;
      }
    }
  }
  helped = true;
  std::printf("%s: %ld times out of memory\n", name, refused);
}

int main() {
  std::mt19937 random(1);
  const auto draw = [&](int below) { return static_cast<int>(random() % below); };
  const int64_t rows = 3000, width = 64, entries = 30000;
  Column<int64_t> indptr(rows + 1);
  for (int64_t v = 0; v <= rows; ++v) indptr[v] = v * entries / rows;
  Column<int32_t> indices(entries), targets(rows);
  for (auto& id : indices) id = draw(rows);
  for (int64_t v = 0; v < rows; ++v) targets[v] = v;
  Column<float> x(rows * width, 1.5f), out(rows * width), touched(rows * width);
  Column<uint16_t> half(rows * width, 0x3fc0);
  starve("aggregate", out, [&] { return cs_aggregate_f32(rows, indptr.data(), indices.data(), nullptr, x.data(), width, out.data()); });
  starve("aggregate in bfloat16", out, [&] { return cs_aggregate_bf16(rows, indptr.data(), indices.data(), nullptr, half.data(), width, out.data()); });
  starve("increment", touched, [&] {
    Column<float>& sums = out;
    for (auto& sum : sums) sum = 0;
    return cs_increment_f32(rows, targets.data(), nullptr, indptr.data(), indices.data(), nullptr, x.data(), width, sums.data(), touched.data());
  });

  Column<float> ends(rows, 0.5f), weights(entries), maximum(rows), denominator(rows), row(rows);
  starve("softmax", weights, [&] {
    return cs_softmax_f32(rows, nullptr, indptr.data(), indices.data(), nullptr, nullptr, 1, ends.data(), ends.data(), 0.2, weights.data(),
                          maximum.data(), denominator.data(), nullptr);
  });
  starve("softmax_grad", row, [&] {
    return cs_softmax_grad_f32(rows, nullptr, indptr.data(), indices.data(), ends.data(), ends.data(), 0.2, weights.data(), x.data(), width,
                               x.data(), ends.data(), touched.data(), row.data());
  });

  const int64_t nodes = 40000;  // each hears itself, and the change adds an edge to every tenth
  Column<int64_t> own(nodes + 1), steps{0}, change_ptr{0}, after_ptr{0};
  Column<int32_t> selves(nodes), slots(nodes, -1), change;
  for (int64_t v = 0; v < nodes; ++v) {
    own[v + 1] = v + 1;
    selves[v] = v;
    if (v % 10 == 1) {
      slots[v] = change.size();
      change.push_back(v - 1);
      change_ptr.push_back(change.size());
      steps.push_back(change.size());
    }
    after_ptr.push_back(v + 1 + change.size());
  }
  Column<int32_t> rebuilt(after_ptr.back());
  starve("rebuild", rebuilt, [&] {
    return cs_rebuild(nodes, own.data(), selves.data(), slots.data(), change_ptr.data(), change.data(), steps.data(), nullptr, nullptr,
                      after_ptr.data(), rebuilt.data(), nullptr);
  });

  const int64_t groups = 300;
  Column<double> times(groups), reuse(groups * 3);
  for (auto& time : times) time = 1 + draw(50);
  for (auto& saved : reuse) saved = draw(9) * 0.1;
  Column<int32_t> iteration(groups), gpu(groups), slot(groups), mate(groups, -1);
  double total = 0;
  starve("greedy", gpu, [&] {
    return cs_greedy(groups, times.data(), 3, reuse.data(), 30, 0, 1, 3, iteration.data(), gpu.data(), slot.data());
  });
  starve("band_matching", mate, [&] { return cs_band_matching(groups, 3, reuse.data(), mate.data(), &total); });
  mate.assign(groups, -1);
  starve("exchange", mate, [&] {
    return cs_exchange(groups, times.data(), 3, reuse.data(), 4, 0.1, 0.5, 1.0, 20000, 7, mate.data(), &total);
  });

  const int64_t ids = 600000, across = 6;
  Column<int32_t> close(ids), far(ids), full(ids / across, across), unique(ids);
  for (auto& id : close) id = draw(rows);
  for (auto& id : far) id = draw(2000000000);
  Column<int64_t> place(ids), begins(ids / across + 1);
  int64_t count = 0;
  starve("distinct, marked", place, [&] {
    return cs_distinct(ids / across, across, close.data(), full.data(), 3, unique.data(), place.data(), begins.data(), &count);
  });
  starve("distinct, sorted", place, [&] {
    return cs_distinct(ids, 1, far.data(), nullptr, 3, unique.data(), place.data(), nullptr, &count);
  });
  Column<uint8_t> hit(ids);
  Column<int32_t> one(ids);
  starve("caches", hit, [&] { return cs_caches(ids, place.data(), one.data(), 1, 64, 8, hit.data()); });
  Column<int32_t> part(1), node(1);
  Column<double> zero(1), attention(1), since(1), clock(1);
  Column<int64_t> held(1), counts(1);
  starve("stream_parts", part, [&] {
    return cs_stream_parts(1, 1, 1, one.data(), one.data(), zero.data(), 0, 0.0, node.data(), attention.data(), since.data(), held.data(),
                           counts.data(), clock.data(), part.data());
  });
  const double pull = 0.0;
  Column<int32_t> recent(3), read(1), home(1);
  Column<int64_t> degree(1), listed(1), load(1), fetched(1);
  starve("restream", part, [&] {
    degree[0] = listed[0] = load[0] = fetched[0] = 0;
    return cs_restream(1, 1, 1, 1, 0, 1, one.data(), one.data(), 1.0, 1.0, 1.0, 0.0, 0.0, &pull, home.data(), recent.data(), degree.data(),
                       read.data(), listed.data(), load.data(), fetched.data(), part.data());
  });
  Column<int32_t> bound(1);
  int32_t cpu = sched_getcpu();
  starve("bind", bound, [&] {
    const int status = cs_bind(1, &cpu);
    bound[0] = cs_bound();
    return status;
  });
  if (cs_unbind() != CS_OK || cs_bound() != 0) ++faults;
  return faults ? 1 : 0;
}
