// One chunk of sparse rows times a dense matrix. rows.cpp is compiled once for each instruction set.
#pragma once

#include <cstdint>

namespace cs {

template <class T>
struct Rows {
  const int64_t* indptr;
  const int32_t* indices;
  const float* values;     // or null: all ones
  const T* weights;        // in their place, where they must have T's precision; or null
  const T* x;              // [*, width]
  int64_t width;
  T* out;                  // [rows, width]
  const int32_t* targets;  // null for aggregate; else row r is added to sums[targets[r], :]
  const uint8_t* fresh;    // or null; where it is 1, row r replaces its sum instead
  T* sums;
};

// Rows [row, row_end) end in this chunk; edges [edge, edge_end) belong to it. It may begin and end inside a row.
struct Chunk {
  int64_t row, row_end, edge, edge_end;
};

// A row that began in an earlier chunk goes to carry [width] in place of out; the caller adds it there.
template <class T>
using RowsKernel = void (*)(const Rows<T>&, const Chunk&, T* carry);

namespace baseline {
void rows(const Rows<float>&, const Chunk&, float* carry);
void rows(const Rows<double>&, const Chunk&, double* carry);
}
namespace avx2 {
void rows(const Rows<float>&, const Chunk&, float* carry);
void rows(const Rows<double>&, const Chunk&, double* carry);
}
namespace avx512f {
void rows(const Rows<float>&, const Chunk&, float* carry);
void rows(const Rows<double>&, const Chunk&, double* carry);
}

}  // namespace cs
