// Sums of the rows of a sparse matrix times a dense one, over one chunk of entries (kernels.h: rows), vectorised over columns.
//
// CS_ISA names the instruction set this copy is compiled for, CS_VECTOR its register in bytes. Nothing from the
// standard library may be instantiated here: the linker could hand an AVX-512 copy of it to a machine without.
#include <type_traits>

#ifdef __SSE2__
#include <immintrin.h>  // inline only, as are the functions here
#endif

#include "kernels.h"

namespace cs {
namespace CS_ISA {
namespace {

constexpr int kMost = 8;       // accumulators of a tile: half of the 16 registers of AVX2
constexpr int64_t kAhead = 32;  // edges between a prefetch into the second cache, which may wait for more lines than the first, and its use
constexpr int64_t kRowsAhead = 8;

template <class T, int W>
struct Pack {
  typedef T type __attribute__((vector_size(W * sizeof(T))));
};
template <class T>
struct Pack<T, 1> {
  typedef T type;
};

struct None {};  // no weights: all ones

template <class V, class T>
inline V load(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

// W numbers of x as T: bfloat16 is the upper half of a float. Compilers widen in halves that they then join, which takes longer
// than the sum itself; hence the instructions by name.
template <class T, int W, class X>
inline typename Pack<T, W>::type widen(const X* from) {
  using V = typename Pack<T, W>::type;
  if constexpr (std::is_same_v<X, T>) {
    return load<V>(from);
  } else {
    using U = typename Pack<uint32_t, W>::type;
    using H = typename Pack<X, W>::type;
    U bits;
    if constexpr (W == 1) {
      bits = static_cast<uint32_t>(*from) << 16;
#ifdef __AVX512F__
    } else if constexpr (W == 16) {
      bits = reinterpret_cast<U>(_mm512_maskz_cvtepu16_epi32(0xffff, load<__m256i>(from))) << 16;  // unmasked, g++ 12 warns
#endif
#ifdef __AVX2__
    } else if constexpr (W == 8) {
      bits = reinterpret_cast<U>(_mm256_cvtepu16_epi32(load<__m128i>(from))) << 16;
#endif
#ifdef __SSE2__
    } else if constexpr (W == 4) {
      bits = reinterpret_cast<U>(_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#endif
    } else {
      bits = __builtin_convertvector(load<H>(from), U) << 16;
    }
    V v;
    __builtin_memcpy(&v, &bits, sizeof v);
    return v;
  }
}

// Columns [column, column + (N - 1) * W + W): N accumulators of W numbers stay in registers over a whole row. The last
// one starts at column + last and may overlap its neighbour, so any width from W up needs no scalar tail.
template <class T, int W, int N, class X, class Weight>
void tile(const Rows<T, X>& r, const Weight* weights, const Chunk& c, T* carry, int64_t column, int64_t last) {
  using V = typename Pack<T, W>::type;
  const X* const x = r.x + column;
  const int32_t* const ids = r.indices;
  const int64_t width = r.width;
  for (int64_t row = c.row; row <= c.row_end; ++row) {
    const bool ends = row < c.row_end;
    const int64_t first = r.indptr[row];
    const int64_t begin = first > c.edge ? first : c.edge;
    const int64_t end = ends ? r.indptr[row + 1] : c.edge_end;
    if (!ends && end <= first) return;
    const bool begins = begin == first;
    T* const sums = r.sums ? r.sums + r.targets[row] * width + column : nullptr;
    if (sums && row + kRowsAhead < c.row_end) {  // touched rows are scattered, and about to be written
      const char* const soon = reinterpret_cast<const char*>(r.sums + r.targets[row + kRowsAhead] * width + column);
      for (unsigned byte = 0; byte < N * W * sizeof(T); byte += 64) __builtin_prefetch(soon + byte, 1);
    }

    V acc[N];
    for (int i = 0; i < N; ++i) acc[i] = V{};
    for (int64_t e = begin; e < end; ++e) {
      // Rows of x that fit a cache line are overlapped well enough by the processor itself.
      if (N * W * sizeof(X) > 64 && ids && e + kAhead < c.edge_end) {
        const char* const soon = reinterpret_cast<const char*>(x + ids[e + kAhead] * width);
        for (unsigned byte = 0; byte < N * W * sizeof(X); byte += 64) __builtin_prefetch(soon + byte, 0, 2);
      }
      const X* const source = x + (ids ? ids[e] : e) * width;
      for (int i = 0; i < N; ++i) {
        const V v = widen<T, W>(source + (i + 1 < N ? i * W : last));
        if constexpr (std::is_same_v<Weight, None>) acc[i] += v; else acc[i] += static_cast<T>(weights[e]) * v;
      }
    }
    // The change is summed before the old sum joins it: one rounding at the sum's size, however many the edges.
    if (sums && begins && !(r.fresh && r.fresh[row])) {
      for (int i = 0; i < N; ++i) acc[i] += load<V>(sums + (i + 1 < N ? i * W : last));
    }
    T* const out = begins ? r.out + row * width + column : carry + column;
    for (int i = 0; i < N; ++i) __builtin_memcpy(out + (i + 1 < N ? i * W : last), &acc[i], sizeof(V));
    if (sums && begins && ends) {
      for (int i = 0; i < N; ++i) __builtin_memcpy(sums + (i + 1 < N ? i * W : last), &acc[i], sizeof(V));
    }
  }
}

template <class T, int W, int N, class X, class Weight>
void pick(int n, const Rows<T, X>& r, const Weight* weights, const Chunk& c, T* carry, int64_t column, int64_t last) {
  if (n == N) return tile<T, W, N>(r, weights, c, carry, column, last);
  if constexpr (N > 1) pick<T, W, N - 1>(n, r, weights, c, carry, column, last);
}

// Splits the columns into tiles of nearly equal numbers of packs: no tile is so thin that its last pack would overlap
// the tile before it, whose sums are already written.
template <class T, int W, class X, class Weight>
void columns(const Rows<T, X>& r, const Weight* weights, const Chunk& c, T* carry) {
  if constexpr (W > 1) {
    if (r.width < W) return columns<T, W / 2>(r, weights, c, carry);
  }
  const int64_t packs = (r.width + W - 1) / W;
  const int64_t tiles = (packs + kMost - 1) / kMost;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t from = packs * t / tiles, to = packs * (t + 1) / tiles;
    const int64_t last = t + 1 < tiles ? (to - from - 1) * W : r.width - W - from * W;
    pick<T, W, kMost>(static_cast<int>(to - from), r, weights, c, carry, from * W, last);
  }
}

template <class T, class X>
void run(const Rows<T, X>& r, const Chunk& c, T* carry) {
  constexpr int W = CS_VECTOR / sizeof(T);
  if (r.weights) return columns<T, W>(r, r.weights, c, carry);
  if (r.values) return columns<T, W>(r, r.values, c, carry);
  columns<T, W>(r, static_cast<const None*>(nullptr), c, carry);
}

}  // namespace

void rows(const Rows<float>& r, const Chunk& c, float* carry) { run(r, c, carry); }
void rows(const Rows<double>& r, const Chunk& c, double* carry) { run(r, c, carry); }
void rows(const Rows<float, uint16_t>& r, const Chunk& c, float* carry) { run(r, c, carry); }

}  // namespace CS_ISA
}  // namespace cs
