// Which copy of the row kernels this machine runs.
#pragma once

namespace cs {

enum class Isa { baseline, avx2, avx512f };

extern const Isa isa;  // aggregate.cpp

}  // namespace cs

// Calls the copy of `function` for this machine.
#ifdef CS_X86_KERNELS
#define CS_CALL(function, ...)                                                    \
  (cs::isa == cs::Isa::avx512f ? cs::avx512f::function(__VA_ARGS__)               \
   : cs::isa == cs::Isa::avx2  ? cs::avx2::function(__VA_ARGS__)                  \
                               : cs::baseline::function(__VA_ARGS__))
#else
#define CS_CALL(function, ...) cs::baseline::function(__VA_ARGS__)
#endif
