// Attention by rows: weights of entries, and their gradients. edges.cpp is compiled once for each instruction set.
#pragma once

#include <cstdint>

namespace cs {

// As cs_softmax and cs_softmax_grad.
template <class T>
struct Softmax {
  const int32_t* targets;
  const int64_t* indptr;
  const int32_t* indices;
  const int8_t* sign;
  const T* base;
  bool running;
  const T *left, *right;
  T slope;
  T *weights, *maximum, *denominator;
  uint8_t* held;
};

template <class T>
struct SoftmaxGrad {
  const int32_t* targets;
  const int64_t* indptr;
  const int32_t* indices;
  const T *left, *right;
  T slope;
  const T *weights, *z;
  int64_t width;
  const T *into_total, *into_denominator;
  T *edges, *row;
};

#define CS_DECLARE(isa)                                                          \
  namespace isa {                                                                \
  void softmax(const Softmax<float>&, int64_t begin, int64_t end);               \
  void softmax(const Softmax<double>&, int64_t begin, int64_t end);              \
  void softmax_grad(const SoftmaxGrad<float>&, int64_t begin, int64_t end);      \
  void softmax_grad(const SoftmaxGrad<double>&, int64_t begin, int64_t end);     \
  }
CS_DECLARE(baseline)
CS_DECLARE(avx2)
CS_DECLARE(avx512f)
#undef CS_DECLARE

}  // namespace cs
