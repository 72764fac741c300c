// What the scheduler moves: threads, and the blocks that they belong to.
#pragma once

#include <new>
#include <string>
#include <vector>

#include "emulator.h"
#include "fiber.h"

namespace emu {

constexpr unsigned kWarp = 32;

struct Block;

struct Thread : Place {
  Block* home;
  Fiber* fiber;        // null until it runs for the first time
  Exchange* exchange;  // it waits for the lanes of this mask
  bool at_barrier, done;
  bool late;  // others go first
};

struct Memory {
  const void* key;
  size_t size;
  std::align_val_t alignment;
  void* data;
};

struct Block {
  std::vector<Thread> threads;
  unsigned live = 0;                // threads that have not ended
  unsigned arrived = 0, votes = 0;  // at the barrier at `site`
  Site site{};
  unsigned outcome = 0;  // the votes of the barrier before
  std::vector<Memory> shared;

  ~Block();
  void start(unsigned index, unsigned size);
  void* find(const void* key) const;  // shared memory, or null
  void* reserve(const void* key, size_t size, size_t alignment);
  std::string stuck() const;  // none of its threads can go on: who waits for whom; "" where none waits
};

bool differ(const Exchange& a, const Exchange& b);      // not one and the same warp operation
bool gather(const Thread& t, Thread* (&lanes)[kWarp]);  // whether all lanes that t waits for are there, too
void complete(unsigned mask, Thread* const (&lanes)[kWarp]);  // all lanes of `mask` have come: each gets its value
std::string described(const Thread& t, const Exchange& e);

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string described(Site s);

}  // namespace emu
