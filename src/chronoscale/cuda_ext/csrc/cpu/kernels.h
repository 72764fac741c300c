// Declarations of the row kernels, one copy for each instruction set: rows.cpp, edges.cpp, slots.cpp, gates.cpp, cell_steps.cpp,
// encodings.cpp, shares.cpp and tables.cpp. CS_CALL runs the copy for this machine.
#pragma once

#include <cstdint>

#include "../common/operands.h"

namespace cs {

// Rows [row, row_end) end in this chunk; edges [edge, edge_end) belong to it. It may begin and end inside a row.
struct Chunk {
  int64_t row, row_end, edge, edge_end;
};

// rows: one chunk. A row that began in an earlier one goes to carry [width] in place of out; the caller adds it there.
// tables: whether all of its ids are there; else what is written is of no use. encode: room for four rows of padded numbers. Steps of cells: a row
// of zeros, as many as products have, for operands that are null.
#define CS_DECLARE(isa, T)                                                                     \
  namespace isa {                                                                              \
  void rows(const Rows<T>&, const Chunk&, T* carry);                                           \
  void softmax(const Softmax<T>&, int64_t begin, int64_t end);                                 \
  void softmax_grad(const SoftmaxGrad<T>&, int64_t begin, int64_t end);                        \
  void attend(const Slots<T>&, int64_t begin, int64_t end, T* room, T* weights, T* out);       \
  void attend_grad(const SlotsGrad<T>&, int64_t begin, int64_t end, T* room, double* partial); \
  void attend_columns(const SlotsGrad<T>&, int64_t begin, int64_t end, T* room);               \
  void gates(const Gates<T>&, int64_t begin, int64_t end);                                     \
  void gates_grad(const GatesGrad<T>&, int64_t begin, int64_t end);                            \
  void lstm_step(const LstmStep<T>&, int64_t begin, int64_t end, const T* zeros);              \
  void lstm_step_grad(const LstmStepGrad<T>&, int64_t begin, int64_t end, const T* zeros);     \
  void gru_step(const GruStep<T>&, int64_t begin, int64_t end, const T* zeros);                \
  void gru_step_grad(const GruStepGrad<T>&, int64_t begin, int64_t end, const T* zeros);       \
  void encode(const Encoding<T>&, int64_t begin, int64_t end, T* room);                        \
  void shares(const Shares<T>&, int64_t begin, int64_t end);                                   \
  bool tables(const Tables<T, int32_t>&, int64_t begin, int64_t end);                          \
  bool tables(const Tables<T, int64_t>&, int64_t begin, int64_t end);                          \
  }
#define CS_DECLARE_BOTH(isa) \
  CS_DECLARE(isa, float)     \
  CS_DECLARE(isa, double)    \
  namespace isa { void rows(const Rows<float, uint16_t>&, const Chunk&, float* carry); }
CS_DECLARE_BOTH(baseline)
CS_DECLARE_BOTH(avx2)
CS_DECLARE_BOTH(avx512f)
#undef CS_DECLARE_BOTH
#undef CS_DECLARE

enum class Isa { baseline, avx2, avx512f };

extern const Isa isa;  // aggregate.cpp

// cs_aggregate without checks of its operands; indices null: 0, 1, 2, ... (aggregate.cpp)
int sum_rows(const Rows<float>&);
int sum_rows(const Rows<double>&);

// Returns the row at a position of the merged sequence of rows' ends and entries: the largest v with indptr[v] + v <= at.
inline int64_t row_at(const int64_t* indptr, int64_t rows, int64_t at) {
  int64_t low = 0, high = rows < at ? rows : at;
  while (low < high) {
    const int64_t mid = (low + high + 1) / 2;
    if (indptr[mid] + mid <= at) low = mid; else high = mid - 1;
  }
  return low;
}

}  // namespace cs

#ifdef CS_X86_KERNELS
#define CS_CALL(function, ...)                                      \
  (cs::isa == cs::Isa::avx512f ? cs::avx512f::function(__VA_ARGS__) \
   : cs::isa == cs::Isa::avx2  ? cs::avx2::function(__VA_ARGS__)    \
                               : cs::baseline::function(__VA_ARGS__))
#else
#define CS_CALL(function, ...) cs::baseline::function(__VA_ARGS__)
#endif
