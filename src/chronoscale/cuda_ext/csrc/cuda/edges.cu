// Sums over edges on a CUDA stream (FAST, section 4.3; cs_cuda_edges, cs_cuda_segments): a thread has some numbers of edges, whatever their
// targets' degrees. O(edges * width).
//
// Added by atomics, in any order; or, where targets ascend, in a fixed one: a block has a piece of the edges, whose groups of lanes have
// equal shares of it. A row that ends where it began is written; one that goes on is put together from the shares it reaches into, and,
// beyond a piece, from what the pieces left. The order of summation depends only on the targets and the width.
#include "packs.cuh"
#include "pieces.cuh"

namespace {

using cs::at;
using cs::kPiece;
using cs::kThreads;
using cs::Launch;
using cs::Pack;

constexpr int kEach = 4;   // packs of a thread, all on their way at once
constexpr int kAhead = 4;  // edges that a group has on their way at once

template <class T, class I>
struct Edges {
  int64_t rows, edges;
  const I *target, *source;
  int64_t sources;
  const T* x;
  int64_t width;
  T* out;
  T* partial;  // [2 * pieces, width]: of the row that comes into a piece, then of the one that begins in it and goes on
};

// Returns an edge's row of x; null: there is none.
template <class T, class I>
__device__ const T* row_of(const Edges<T, I>& g, int64_t e) {
  const int64_t id = g.source ? static_cast<int64_t>(g.source[e]) : e;
  return id >= 0 && id < g.sources ? g.x + id * g.width : nullptr;
}

template <class T, int V>
__device__ void add(T* to, const Pack<T, V>& numbers) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && CUDART_VERSION >= 12010
  constexpr bool kAtOnce = sizeof(T) == 4 && V == 4;
#else
  constexpr bool kAtOnce = false;
#endif
  if constexpr (kAtOnce) {
    atomicAdd(reinterpret_cast<float4*>(to), make_float4(numbers.v[0], numbers.v[1], numbers.v[2], numbers.v[3]));
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) atomicAdd(to + i, numbers.v[i]);
  }
}

// N: integer type that counts all packs.
template <class T, class I, class N, int V>
__global__ void __launch_bounds__(kThreads) edges_kernel(Edges<T, I> g, N packs, N total) {
  const N first = static_cast<N>(blockIdx.x) * (kThreads * kEach) + threadIdx.x;
  int64_t rows[kEach];
  N columns[kEach];
  const T* from[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const N number = first + k * kThreads, edge = number / packs;
    rows[k] = number < total ? static_cast<int64_t>(g.target[edge]) : -1;
    from[k] = number < total ? row_of(g, static_cast<int64_t>(edge)) : nullptr;
    columns[k] = (number - edge * packs) * V;
  }
  Pack<T, V> read[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (from[k]) {
      read[k] = at<T, V>(from[k] + columns[k]);
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) read[k].v[i] = T(NAN);
    }
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (rows[k] >= 0 && rows[k] < g.rows) add<T, V>(g.out + rows[k] * g.width + columns[k], read[k]);
  }
}

template <class T, class I, int V>
__device__ void write(const Edges<T, I>& g, int64_t row, int64_t column, const Pack<T, V>& acc) {
  if (row >= 0 && row < g.rows && column < g.width) at<T, V>(g.out + row * g.width + column) = acc;
}

template <class T, class I, int V>
__device__ void leave(const Edges<T, I>& g, int64_t slot, int64_t column, const Pack<T, V>& acc) {
  if (column < g.width) at<T, V>(g.partial + slot * g.width + column) = acc;
}

// A group of `lanes` for each share of a piece's edges.
template <class T, class I, int V>
__global__ void __launch_bounds__(kThreads) segments_kernel(Edges<T, I> g, int lanes) {
  __shared__ Pack<T, V> heads[kThreads];    // sum of each share's first row within the share
  __shared__ int64_t firsts[kThreads];      // that row
  __shared__ int32_t more_rows[kThreads];      // whether the share has a second row: 0 or 1; 2: it has no edges
  const int64_t low = static_cast<int64_t>(blockIdx.x) * kPiece, high = low + kPiece < g.edges ? low + kPiece : g.edges;
  const int groups = kThreads / lanes, group = threadIdx.x / lanes, lane = threadIdx.x % lanes, share = kPiece / groups;
  const int64_t begin = low + group * share, end = begin + share < high ? begin + share : high;
  const bool comes_in = low > 0 && g.target[low - 1] == g.target[low], goes_on = high < g.edges && g.target[high - 1] == g.target[high];
  const bool filled = begin < end;
  const int64_t first = filled ? static_cast<int64_t>(g.target[begin]) : -1;
  const bool begins = filled && (group == 0 || g.target[begin - 1] != g.target[begin]);  // its first row, in this piece
  for (int64_t base = 0; base < g.width; base += lanes * V) {
    const int64_t column = base + lane * V;
    int64_t row = first;
    bool another = false;
    Pack<T, V> acc{};
    for (int64_t from = begin; from < end; from += kAhead) {
      Pack<T, V> read[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const T* const x = from + j < end && column < g.width ? row_of(g, from + j) : nullptr;
        if (x) {
          read[j] = at<T, V>(x + column);
        } else {
#pragma unroll
          for (int i = 0; i < V; ++i) read[j].v[i] = T(NAN);
        }
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (from + j >= end) continue;
        const int64_t to = g.target[from + j];
        if (to != row) {
          if (another) {
            write(g, row, column, acc);
          } else {
            heads[threadIdx.x] = acc;
            if (begins && group == 0 && comes_in) leave(g, 2 * blockIdx.x, column, acc); else if (begins) write(g, row, column, acc);
          }
          another = true;
          row = to;
          acc = Pack<T, V>{};
        }
        acc.add(read[j]);
      }
    }
    if (!another) heads[threadIdx.x] = acc;
    if (lane == 0) firsts[group] = first, more_rows[group] = filled ? another : 2;
    __syncthreads();
    if (filled && (another || begins)) {  // the share's last row is this group's to finish
      for (int next = group + 1; next < groups && more_rows[next] != 2 && firsts[next] == row; ++next) {
        acc.add(heads[next * lanes + lane]);
        if (more_rows[next]) break;
      }
      if (!another && group == 0 && comes_in) {
        leave(g, 2 * blockIdx.x, column, acc);
      } else if (goes_on && row == g.target[high - 1]) {
        leave(g, 2 * blockIdx.x + 1, column, acc);
      } else {
        write(g, row, column, acc);
      }
    }
    __syncthreads();
  }
}

// The row that begins in a block's piece and goes beyond it, from what the pieces left of it.
template <class T, class I, int V>
__global__ void __launch_bounds__(kThreads) join_kernel(Edges<T, I> g, int lanes, int64_t pieces) {
  const int64_t low = static_cast<int64_t>(blockIdx.x) * kPiece, high = low + kPiece;
  if (high >= g.edges) return;
  const I row = g.target[high - 1];
  if (g.target[high] != row || (low > 0 && g.target[low - 1] == g.target[low] && g.target[low] == row)) return;
  const int groups = kThreads / lanes, group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  for (int64_t base = 0; base < g.width; base += lanes * V) {
    const int64_t column = base + lane * V;
    Pack<T, V> acc{};
    if (column < g.width) {
      if (group == 0) acc = at<T, V>(g.partial + (2 * blockIdx.x + 1) * g.width + column);
      for (int64_t piece = blockIdx.x + 1 + group; piece < pieces && g.target[piece * kPiece] == row; piece += groups) {
        acc.add(at<T, V>(g.partial + 2 * piece * g.width + column));
      }
    }
    acc = cs::of_groups(acc, lanes);
    if (group == 0) write(g, row, column, acc);
  }
}

template <class T, class I, int V>
cudaError_t segments(const Edges<T, I>& g, cudaStream_t stream) {
  const int lanes = cs::lanes_for((g.width + V - 1) / V);
  const int64_t pieces = (g.edges + kPiece - 1) / kPiece;
  segments_kernel<T, I, V><<<static_cast<unsigned>(pieces), kThreads, 0, stream>>>(g, lanes);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess || pieces == 1) return error;
  join_kernel<T, I, V><<<static_cast<unsigned>(pieces - 1), kThreads, 0, stream>>>(g, lanes, pieces);
  return cudaGetLastError();
}

// Several numbers at once where the device adds them so.
bool packed(int device) {
  int major = 0;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}

template <class T, class I, int V>
int scatter(const Edges<T, I>& g, const Launch& how) {
  const int64_t packs = g.width / V, total = g.edges * packs, blocks = (total + kThreads * kEach - 1) / (kThreads * kEach);
  if (blocks > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (blocks * kThreads * kEach <= INT64_C(0xffffffff)) {
    edges_kernel<T, I, uint32_t, V><<<static_cast<unsigned>(blocks), kThreads, 0, how.on()>>>(g, static_cast<uint32_t>(packs), static_cast<uint32_t>(total));
  } else {
    edges_kernel<T, I, int64_t, V><<<static_cast<unsigned>(blocks), kThreads, 0, how.on()>>>(g, packs, total);
  }
  return cs::report(cudaGetLastError());
}

template <class T, class I>
int run(const Edges<T, I>& g, bool ordered, const Launch& how) {
  if (g.rows < 0 || g.edges < 0 || g.width < 0 || g.sources < 0 || g.edges > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (g.rows == 0 || g.edges == 0 || g.width == 0) return CS_OK;
  if (!g.target || (g.sources > 0 && !g.x) || !g.out || (ordered && g.edges > kPiece && !g.partial)) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(how.device); error != cudaSuccess) return cs::report(error);
  constexpr int kWide = 16 / sizeof(T);
  if (!ordered) {
    const bool fit = sizeof(T) == 4 && cs::fits<kWide>(g.x, g.width) && cs::fits<kWide>(g.out, g.width) && packed(how.device);
    return fit ? scatter<T, I, kWide>(g, how) : scatter<T, I, 1>(g, how);
  }
  const bool wide = cs::fits<kWide>(g.x, g.width) && cs::fits<kWide>(g.out, g.width) && cs::fits<kWide>(g.partial, g.width);
  return cs::report(wide ? segments<T, I, kWide>(g, how.on()) : segments<T, I, 1>(g, how.on()));
}

}  // namespace

#define CS_RUN(T, I, ordered)                                                                                        \
  run(Edges<T, I>{rows, edges, static_cast<const I*>(target), static_cast<const I*>(source), sources, x, width, out, \
                  static_cast<T*>(partial)},                                                                         \
      ordered, Launch{entries, counters, partial, cuts, cut_count, device, stream})
#define CS_DEFINE(name, kind, T, ordered)                                    \
  int cs_cuda_##name##_##kind(CS_EDGES(T), CS_CUDA_LAUNCH) {                 \
    return wide ? CS_RUN(T, int64_t, ordered) : CS_RUN(T, int32_t, ordered); \
  }
CS_DEFINE(edges, f32, float, false)
CS_DEFINE(edges, f64, double, false)
CS_DEFINE(segments, f32, float, true)
CS_DEFINE(segments, f64, double, true)
#undef CS_DEFINE
#undef CS_RUN
