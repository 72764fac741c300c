// Softmax over rows' entries on a CUDA stream, and its gradient (cs_cuda_edge_softmax) (FAST, section 4.3): a thread has a row's head and
// goes through its few entries, which its block reads and writes side by side, by way of shared memory, where they have room there. Rows of
// more than kFew are a warp's, long ones are cut (pieces.cuh), in a second launch. Order and results repeat bit for bit.
#include "../common/operands.h"
#include "pieces.cuh"

namespace {

using cs::kPiece;
using cs::kThreads;
using cs::Launch;
using cs::Part;

constexpr int kFew = 32;           // entries, at most, that a thread goes through
constexpr int kRoom = 24 * 1024;   // bytes for a block's entries

// cs::Shares, and what its kernels share. partial [2 * pieces, heads, 2], or of the gradient [2 * pieces, heads].
template <class T>
struct Shares : cs::Shares<T> {
  T* partial;
  int64_t pieces;
};

// The numbers of one head of a row's entries from `begin` on, those `stride` entries apart, below `end`.
template <class T>
struct Walk {
  const Shares<T>& s;
  int64_t head, begin, end, stride;

  template <class F>
  __device__ void each(F f) const {
    for (int64_t e = begin; e < end; e += stride) f(e * s.heads + head);
  }
};

// Maximum and sum of exponentials of a softmax. Of nothing but -infinity the total is 0, not NaN: other pieces of a row may have more.
template <class T>
struct Softmax {
  static constexpr int kNumbers = 2, kReads = 1;
  T top, total;

  template <class Put, class Add>
  __device__ static Softmax of(const Walk<T>& walk, Put put, Add add) {
    const Shares<T>& s = walk.s;
    T top = -T(INFINITY), total = 0;
    walk.each([&](int64_t at) { top = cs::Larger<T>()(top, s.input[at]); });
    top = put(top);
    const T base = top == -T(INFINITY) ? T(0) : top;
    walk.each([&](int64_t at) { total += exp(s.input[at] - base); });
    return {top, add(total)};
  }

  __device__ void write(const Walk<T>& walk) const {
    const Shares<T>& s = walk.s;
    const T scale = 1 / total;
    walk.each([&](int64_t at) { s.out[at] = exp(s.input[at] - top) * scale; });
  }

  // Combines the states of all pieces of a row.
  template <class Put, class Add, class Each>
  __device__ static Softmax joined(Each each, Put put, Add add) {
    T top = -T(INFINITY), total = 0;
    each([&](const T* piece) { top = cs::Larger<T>()(top, piece[0]); });
    top = put(top);
    each([&](const T* piece) { total += piece[1] * exp(piece[0] - top); });
    return {top, add(total)};
  }

  __device__ void leave(T* piece) const { piece[0] = top, piece[1] = total; }
};

// Sum that the gradient of a softmax subtracts.
template <class T>
struct Gradient {
  static constexpr int kNumbers = 1, kReads = 2;
  T total;

  template <class Put, class Add>
  __device__ static Gradient of(const Walk<T>& walk, Put, Add add) {
    const Shares<T>& s = walk.s;
    T total = 0;
    walk.each([&](int64_t at) { total += s.input[at] * s.into[at]; });
    return {add(total)};
  }

  __device__ void write(const Walk<T>& walk) const {
    const Shares<T>& s = walk.s;
    walk.each([&](int64_t at) { s.out[at] = s.input[at] * (s.into[at] - total); });
  }

  template <class Put, class Add, class Each>
  __device__ static Gradient joined(Each each, Put, Add add) {
    T total = 0;
    each([&](const T* piece) { total += piece[0]; });
    return {add(total)};
  }

  __device__ void leave(T* piece) const { piece[0] = total; }
};

template <class T>
struct InThread {
  __device__ T operator()(T value) const { return value; }
};
template <class T, class F>
struct InWarp {
  __device__ T operator()(T value) const { return cs::together(value, 32, F()); }
};
template <class T, class F>
struct InBlock {
  __device__ T operator()(T value) const { return cs::together_in_block(value, F()); }
};

// Returns this block's entries of a long row.
template <class T>
__device__ Walk<T> walk_of(const Shares<T>& s, const Part& part, int64_t head) {
  return {s, head, part.begin + threadIdx.x, part.end, kThreads};
}

// Computes this thread's row and head, entries [begin, end); all lanes of a warp call it.
template <class T, template <class> class State>
__device__ void share(const Shares<T>& s, int64_t head, int64_t begin, int64_t end) {
  if (end - begin <= kFew) {
    const Walk<T> walk{s, head, begin, end, 1};
    State<T>::of(walk, InThread<T>(), InThread<T>()).write(walk);
  }
  for (unsigned left = __ballot_sync(cs::kAll, end - begin > kFew); left; left &= left - 1) {
    const int of = __ffs(left) - 1;
    const int64_t from = __shfl_sync(cs::kAll, begin, of), to = __shfl_sync(cs::kAll, end, of), its = __shfl_sync(cs::kAll, head, of);
    const Walk<T> walk{s, its, from + threadIdx.x % 32, to, 32};
    State<T>::of(walk, InWarp<T, cs::Larger<T>>(), InWarp<T, cs::Plus<T>>()).write(walk);
  }
}

// Rows and heads of a block; its rows are whole unless they have more heads than it has threads.
__host__ __device__ inline int64_t items_of(int64_t heads) { return heads > kThreads ? kThreads : kThreads / heads * heads; }

template <class T, template <class> class State>
__global__ void __launch_bounds__(kThreads) shares_kernel(Shares<T> s) {
  constexpr int64_t kNumbers = kRoom / sizeof(T) / State<T>::kReads;
  __shared__ T room[State<T>::kReads][kNumbers];
  if (blockIdx.x < s.pieces) {
    return cs::long_rows(blockIdx.x, nullptr, s.rows, s.indptr, s.entries, nullptr, [&](const Part& part) {
      for (int64_t head = 0; head < s.heads; ++head) {
        const auto state = State<T>::of(walk_of(s, part, head), InBlock<T, cs::Larger<T>>(), InBlock<T, cs::Plus<T>>());
        if (threadIdx.x == 0) state.leave(s.partial + (part.slot * s.heads + head) * State<T>::kNumbers);
      }
    });
  }
  const auto pointer = [&](int64_t row) {
    const int64_t at = s.indptr[row < s.rows ? row : s.rows];
    return at < 0 ? 0 : at > s.entries ? s.entries : at;
  };
  const int64_t items = items_of(s.heads), first = (blockIdx.x - s.pieces) * items, item = first + threadIdx.x, row = item / s.heads;
  const int64_t low = pointer(first / s.heads), size = (pointer((first + items) / s.heads) - low) * s.heads, head = item % s.heads;
  int64_t begin = 0, end = 0;
  bool apart = s.heads > kThreads || size < 0 || size > kNumbers;  // whether its entries are read from global memory
  if (row < s.rows && threadIdx.x < items) {
    begin = pointer(row), end = pointer(row + 1);
    if (s.pieces > 0 && end - begin >= kPiece) end = begin;  // which the second launch writes
    if (end > begin && (begin < low || (end - low) * s.heads > size)) apart = true;  // pointers that do not ascend
  }
  if (__syncthreads_or(apart)) return share<T, State>(s, head, begin, end);
  const int64_t at = low * s.heads;
  for (int64_t i = threadIdx.x; i < size; i += kThreads) {
    room[0][i] = s.input[at + i];
    if (State<T>::kReads > 1) room[State<T>::kReads - 1][i] = s.into[at + i];
  }
  __syncthreads();
  Shares<T> near = s;
  near.input = near.out = room[0];  // a number is read before it is written in its place
  near.into = room[State<T>::kReads - 1];
  share<T, State>(near, head, end > begin ? begin - low : 0, end > begin ? end - low : 0);
  __syncthreads();
  for (int64_t i = threadIdx.x; i < size; i += kThreads) s.out[at + i] = room[0][i];
}

// Writes the long rows, whose pieces' states are complete by now.
template <class T, template <class> class State>
__global__ void __launch_bounds__(kThreads) long_shares_kernel(Shares<T> s) {
  cs::long_rows(blockIdx.x, nullptr, s.rows, s.indptr, s.entries, nullptr, [&](const Part& part) {
    const int64_t first = part.first > 0 ? part.first : 0, last = part.last < s.pieces ? part.last : s.pieces - 1;
    for (int64_t head = 0; head < s.heads; ++head) {
      const auto each = [&](auto f) {
        for (int64_t piece = first + threadIdx.x; piece <= last; piece += kThreads) {
          f(s.partial + (part.slot_of(piece) * s.heads + head) * State<T>::kNumbers);
        }
      };
      State<T>::joined(each, InBlock<T, cs::Larger<T>>(), InBlock<T, cs::Plus<T>>()).write(walk_of(s, part, head));
    }
  });
}

template <class T, template <class> class State>
int run(Shares<T> s, const Launch& how) {
  if (s.rows < 0 || s.entries < 0 || s.heads < 0 || s.entries > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (s.rows == 0 || s.entries == 0 || s.heads == 0) return CS_OK;
  if (!s.indptr || !s.input || !s.out) return CS_ERROR_ARGUMENT;
  s.pieces = how.counters ? cs::pieces_of(s.entries) : 0;
  const int64_t items = items_of(s.heads), blocks = s.pieces + (s.rows * s.heads + items - 1) / items;
  if ((s.pieces > 0 && !s.partial) || blocks > INT64_C(0x7fffffff)) return CS_ERROR_ARGUMENT;
  if (const cudaError_t error = cudaSetDevice(how.device); error != cudaSuccess) return cs::report(error);
  shares_kernel<T, State><<<static_cast<unsigned>(blocks), kThreads, 0, how.on()>>>(s);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess || s.pieces == 0) return cs::report(error);
  long_shares_kernel<T, State><<<static_cast<unsigned>(s.pieces), kThreads, 0, how.on()>>>(s);
  return cs::report(cudaGetLastError());
}

}  // namespace

#define CS_DEFINE(kind, T)                                                                                                  \
  int cs_cuda_edge_softmax_##kind(CS_SHARES_ON_CUDA, const T* scores, T* shares, CS_CUDA_LAUNCH) {                          \
    return run<T, Softmax>({{rows, entries, heads, indptr, scores, nullptr, shares}, static_cast<T*>(partial), 0},          \
                           {entries, counters, partial, cuts, cut_count, device, stream});                                  \
  }                                                                                                                         \
  int cs_cuda_edge_softmax_grad_##kind(CS_SHARES_ON_CUDA, const T* shares, const T* into, T* into_scores, CS_CUDA_LAUNCH) { \
    if (entries > 0 && heads > 0 && !into) return CS_ERROR_ARGUMENT;                                                        \
    return run<T, Gradient>({{rows, entries, heads, indptr, shares, into, into_scores}, static_cast<T*>(partial), 0},       \
                            {entries, counters, partial, cuts, cut_count, device, stream});                                 \
  }
CS_DEFINE(f32, float)
CS_DEFINE(f64, double)
#undef CS_DEFINE
