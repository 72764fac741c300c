// Operands of a replay: rows of a schedule, and the hosts that launch them (common/chronoscale.h: cs_replay).
#pragma once

#include <cstdint>

namespace cs {

constexpr int64_t kAtOnce = -(int64_t{1} << 60);  // `after` of a row that no host launches

struct Rows {
  int64_t count, streams, groups;
  const int32_t* stream;
  const int64_t *ns, *collective, *dep_ptr, *dep;

  bool joins(int64_t row) const { return collective && collective[row] >= 0; }
  void fetch(int64_t row) const {
    __builtin_prefetch(ns + row);
    __builtin_prefetch(dep_ptr + row);
    if (collective) __builtin_prefetch(collective + row);
  }
};

struct Hosts {
  int64_t turns, count;
  const int64_t *turn, *after, *host, *length, *gate;

  bool launch(int64_t row) const { return turns && after[row] > kAtOnce; }
  void fetch(int64_t row) const {
    if (turns) __builtin_prefetch(turn + row), __builtin_prefetch(after + row);
  }
};

}  // namespace cs
