// A block's shared memory, and what is wrong with it when nobody can go on.
#include "block.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace emu {
namespace {

// Why the lanes that `t` waits for do not come.
std::string missing(const Block& block, const Thread& t) {
  const Exchange& e = *t.exchange;
  std::string found;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const unsigned thread = t.thread.x / kWarp * kWarp + lane;
    if (!(e.mask >> lane & 1) || thread == t.thread.x) continue;
    const std::string who = format(": lane %u of mask 0x%08x ", lane, e.mask);
    if (thread >= block.threads.size()) return who + "does not exist";
    const Thread& other = block.threads[thread];
    if (other.done) return who + "has exited";
    if (!found.empty()) continue;
    if (other.at_barrier) found = who + "waits at the barrier at " + described(block.site);
    if (other.exchange && differ(e, *other.exchange)) {
      found = who + format("has come to %s at %s with mask 0x%08x", other.exchange->name, described(other.exchange->site).c_str(),
                           other.exchange->mask);
    }
  }
  return found;
}

}  // namespace

Block::~Block() {
  for (const Memory& m : shared) ::operator delete(m.data, m.alignment);
}

void Block::start(unsigned index, unsigned size) {
  threads.resize(size);
  live = size;
  for (const Memory& m : shared) memset(m.data, 0xff, m.size);
  for (unsigned i = 0; i < size; ++i) threads[i] = {{{i, 0, 0}, {index, 0, 0}}, this, nullptr, nullptr, false, false, false};
}

void* Block::find(const void* key) const {
  for (const Memory& m : shared) {
    if (m.key == key) return m.data;
  }
  return nullptr;
}

// Each of its own size, so that the address sanitizer knows where it ends.
void* Block::reserve(const void* key, size_t size, size_t alignment) {
  const auto aligned = std::align_val_t(std::max<size_t>(alignment, 16));
  void* const data = ::operator new(size, aligned);
  memset(data, 0xff, size);
  shared.push_back({key, size, aligned, data});
  return data;
}

std::string Block::stuck() const {
  for (const Thread& t : threads) {
    if (!t.done && t.exchange) return described(t, *t.exchange) + missing(*this, t);
  }
  if (!arrived) return "";
  const auto gone = std::find_if(threads.begin(), threads.end(), [](const Thread& t) { return t.done; });
  return format("block %u: %u of %zu threads wait at the barrier at %s, which the others (thread %u, for one) never reach",
                threads[0].block.x, arrived, threads.size(), described(site).c_str(), gone->thread.x);
}

std::string described(const Thread& t, const Exchange& e) {
  return format("block %u, warp %u: %s at %s", t.block.x, t.thread.x / kWarp, e.name, described(e.site).c_str());
}

std::string described(Site s) {
  const char* name = strrchr(s.file, '/');
  return format("%s:%d", name ? name + 1 : s.file, s.line);
}

std::string format(const char* pattern, ...) {
  char text[600];
  va_list given;
  va_start(given, pattern);
  vsnprintf(text, sizeof text, pattern, given);
  va_end(given);
  return text;
}

}  // namespace emu
