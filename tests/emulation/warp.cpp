// Warp operations: what each lane gets once all have come.
#include <cstring>

#include "block.h"

namespace emu {
namespace {

// The lane whose value a shuffle gives to `lane`: its own where that would lie outside its segment.
unsigned source(const Exchange& e, unsigned lane) {
  const unsigned width = e.width, begin = lane & ~(width - 1), argument = e.argument;
  switch (e.kind) {
    case Exchange::index: return begin | (argument & (width - 1));
    case Exchange::up: return lane >= begin + argument ? lane - argument : lane;
    case Exchange::down: return lane + argument < begin + width ? lane + argument : lane;
    default: return (lane ^ argument) < begin + width ? lane ^ argument : lane;
  }
}

}  // namespace

bool differ(const Exchange& a, const Exchange& b) {
  return a.mask != b.mask || a.site != b.site || a.kind != b.kind || a.size != b.size;
}

bool gather(const Thread& t, Thread* (&lanes)[kWarp]) {
  const Exchange& e = *t.exchange;
  const unsigned first = t.thread.x / kWarp * kWarp;
  for (unsigned i = 0; i < kWarp; ++i) {
    if (!(e.mask >> i & 1)) continue;
    if (first + i >= t.home->threads.size()) return false;
    lanes[i] = &t.home->threads[first + i];
    if (!lanes[i]->exchange || differ(e, *lanes[i]->exchange)) return false;
  }
  return true;
}

void complete(unsigned mask, Thread* const (&lanes)[kWarp]) {
  unsigned char given[kWarp][8];
  memset(given, 0xff, sizeof given);  // what a lane outside the mask gives: undefined
  unsigned ballot = 0, total = 0;
  for (unsigned i = 0; i < kWarp; ++i) {
    if (!(mask >> i & 1)) continue;
    memcpy(given[i], lanes[i]->exchange->value, 8);
    unsigned number;
    memcpy(&number, given[i], 4);
    ballot |= static_cast<unsigned>(number != 0) << i;
    total += number;
  }
  for (unsigned i = 0; i < kWarp; ++i) {
    if (!(mask >> i & 1)) continue;
    Exchange& e = *lanes[i]->exchange;
    const auto give = [&e](unsigned result) { memcpy(e.value, &result, 4); };
    switch (e.kind) {
      case Exchange::sync: break;
      case Exchange::any: give(ballot != 0); break;
      case Exchange::all: give(ballot == mask); break;
      case Exchange::ballot: give(ballot); break;
      case Exchange::sum: give(total); break;
      default: memcpy(e.value, given[source(e, i) % kWarp], 8);
    }
  }
}

}  // namespace emu
