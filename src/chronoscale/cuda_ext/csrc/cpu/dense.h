// How products of dense matrices are cut into tasks, the same for all instruction sets.
#pragma once

#include "kernels.h"

namespace cs {

constexpr int64_t kStrip = 48;   // rows of one task: whole tiles on every instruction set
constexpr int64_t kDepth = 512;  // numbers that are summed before they are written: a panel of them stays in the second cache

}  // namespace cs
