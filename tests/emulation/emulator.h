// A device on one CPU thread: each CUDA thread is a fiber, a few blocks are under way at a time, and which fiber goes on next is
// drawn from a seed. Barriers and warp operations really wait; atomics and fences are where a fiber gives way to others.
#pragma once

#include <cstddef>
#include <tuple>

struct uint3 {
  unsigned x, y, z;
};

struct dim3 : uint3 {
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : uint3{x, y, z} {}
};

namespace emu {

// Where a barrier or warp operation stands in the source.
struct Site {
  const char* file;
  int line;
  bool operator!=(const Site& o) const { return line != o.line || file != o.file; }
};

struct Place {
  uint3 thread, block;
};
extern const Place* here;  // of the running thread
extern dim3 block_dim, grid_dim;

struct Config {
  dim3 grid, block;
  size_t shared;
  Config(dim3 grid, dim3 block, size_t shared = 0, void* = nullptr) : grid(grid), block(block), shared(shared) {}
};

// Runs body(context) in every thread. A failure is cudaGetLastError's, its text cudaGetErrorString's.
void launch(const Config& config, void (*body)(void*), void* context);

// What kernel<<<config>>>(given...) becomes: arguments are converted once, and every thread has its own copy.
template <class... P, class... A>
void launch(const Config& config, void (*kernel)(P...), A&&... given) {
  struct Call {
    void (*kernel)(P...);
    std::tuple<P...> arguments;
  } call{kernel, {static_cast<A&&>(given)...}};
  launch(config, [](void* c) { std::apply(static_cast<Call*>(c)->kernel, static_cast<Call*>(c)->arguments); }, &call);
}

// __shared__: the block's memory under that key, filled with 0xff when the block starts; dynamic_shared: what the launch asked for.
void* shared(const void* key, size_t size, size_t alignment);
void* dynamic_shared();

enum class Vote { none, any, all, count };
int barrier(Vote vote, bool yes, Site site);

// A warp operation of the running lane: it waits for all lanes of `mask`, then `value` is what the lane gets.
struct Exchange {
  enum Kind { sync, index, up, down, bits, any, all, ballot, sum } kind;
  const char* name;
  Site site;
  unsigned mask;
  unsigned size = 0;              // of the value, in bytes
  int argument = 0, width = 32;   // of shuffles
  unsigned char value[8] = {};
};
void exchange(Exchange& e);

void yield();

}  // namespace emu
