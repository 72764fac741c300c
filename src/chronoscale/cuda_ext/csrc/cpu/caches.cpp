// Model of set-associative LRU caches over a given order of accesses (cs_caches); it reads no counters of this machine. O(accesses * ways).
#include <algorithm>
#include <vector>

#include "pool.h"

int cs_caches(int64_t accesses, const int64_t* line, const int32_t* cache, int64_t caches, int64_t sets, int64_t ways, uint8_t* out_hit) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (accesses < 0 || caches < 1 || sets < 1 || ways < 1 || caches > kMost || sets > kMost / caches || ways > kMost / (caches * sets)) {
    return CS_ERROR_ARGUMENT;
  }
  if (accesses > 0 && (!line || !cache || !out_hit)) return CS_ERROR_ARGUMENT;
  return cs::guarded([&] {
    std::vector<int64_t> resident(static_cast<size_t>(caches * sets * ways), -1);  // of each set, the latest first
    for (int64_t i = 0; i < accesses; ++i) {
      if (line[i] < 0 || cache[i] < 0 || cache[i] >= caches) return CS_ERROR_ARGUMENT;
      int64_t* const begin = resident.data() + (cache[i] * sets + line[i] % sets) * ways;
      int64_t* const hit = std::find(begin, begin + ways, line[i]);
      out_hit[i] = hit != begin + ways;
      std::move_backward(begin, std::min(hit, begin + ways - 1), std::min(hit, begin + ways - 1) + 1);
      *begin = line[i];
    }
    return CS_OK;
  });
}
