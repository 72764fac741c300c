// What torch operators over the C ABI share: the libraries, checks of operands, and a launch on a device.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <atomic>
#include <optional>
#include <vector>

namespace cpp_operators {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Whether the CUDA library serves a tensor: a device's, or a CPU's while that library is emulated.
bool on_cuda(const Tensor& x);

// Whether a tensor's memory is what a kernel takes it for: contiguous, all of it there, no sign to be turned on reading.
bool plain(const Tensor& x);

// Raises for what a kernel would misread. What Python tells the user is said there (the checks of cuda_ext), when it hears of this.
void require(bool fits, const char* what, const char* operand);
inline bool vector(const Tensor& x, at::ScalarType type, const Tensor& like) {
  return x.dim() == 1 && x.scalar_type() == type && x.device() == like.device() && plain(x);
}
inline bool floating(const Tensor& x) { return x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble; }

// The memory of a tensor, which may not be there.
inline void* pointer(const Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }
inline void* pointer(const Maybe& x) { return x ? pointer(*x) : nullptr; }
inline Tensor held(const Maybe& x) { return x ? *x : Tensor(); }

// A gradient as kernels read it.
inline Tensor laid(const Tensor& gradient) { return gradient.resolve_neg().contiguous(); }

// These gradients, made from `into`; asked for gradients of their own, they say that there are none.
variable_list once(const char* what, const Tensor& into, variable_list gradients);

// Whether the i-th of a function's operands needs a gradient; `given` are the first of them, tensors that may not be there, which torch
// does not number.
inline bool needs(AutogradContext* ctx, const variable_list& given, size_t i) {
  size_t edge = 0;
  for (size_t before = 0; before < i; ++before) edge += given[before].defined();
  return given[i].defined() && ctx->needs_input_grad(edge);
}

// A function of the C ABI for each type of numbers, by its name without cs_ or cs_cuda_ and _f32, _f64 or _bf16.
class Kernel {
 public:
  explicit Kernel(const char* name) : name_(name) {}

  // What a call on CUDA is told besides. entries: of the matrix; longest: of its rows, -1 where nobody knows; share: numbers that a
  // piece of a long row hands on; cuts: of its long rows, as CSR.cuts, nothing where nobody knows.
  struct Rows {
    int64_t entries, longest, share;
    Tensor cuts = {};
  };

  // Runs it on x's device, for x's type. On CUDA `more` follows the arguments. Pointers and sizes go as they are: the C ABI's types.
  template <class... Arguments, class... More>
  void operator()(const Tensor& x, const Rows& rows, std::tuple<More...> more, Arguments... arguments) {
    if (!on_cuda(x)) return succeed(reinterpret_cast<int (*)(Arguments...)>(of(x))(arguments...));
    Launch launch(x, rows);
    auto function = reinterpret_cast<int (*)(Arguments..., More..., int64_t, void*, void*, void*, int64_t, int, void*)>(of(x));
    const auto run = [&](More... those) {
      return function(arguments..., those..., rows.entries, launch.counters, launch.partial, launch.cuts, launch.count, launch.device,
                      launch.stream);
    };
    succeed(std::apply(run, more));
  }

 private:
  struct Launch {
    Launch(const Tensor& x, const Rows& rows);
    c10::DeviceGuard guard;
    Tensor rooms[2];
    void *counters = nullptr, *partial = nullptr, *cuts = nullptr, *stream = nullptr;
    int64_t count = 0;
    int device = 0;
  };

  void* of(const Tensor& x);
  void succeed(int status) const;

  const char* name_;
  std::atomic<void*> found_[2][3] = {};
  std::atomic<int> opened_{0};
};

inline const Kernel::Rows kNoRows{0, 0, 0};

namespace edges {

// As edges.aggregate_edges, without its gradient.
Tensor sum(const Tensor& x, Tensor target, int64_t rows, Maybe source, bool deterministic, bool ascending);

}  // namespace edges

}  // namespace cpp_operators
