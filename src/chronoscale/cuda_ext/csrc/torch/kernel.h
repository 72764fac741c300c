// Common code of torch operators over the C ABI: the libraries, checks of operands, and launches on a device.
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

// Returns whether the CUDA library serves a tensor: a device's, or a CPU's while that library is emulated.
bool on_cuda(const Tensor& x);

// Returns whether kernels can read a tensor's memory as it is: contiguous, inside its storage, without the lazy negation bit.
bool plain(const Tensor& x);

// Throws for an operand that a kernel would misread. Python catches it and raises the message of its own checks (cuda_ext/operators).
void require(bool fits, const char* operator_name, const char* operand);
inline bool vector(const Tensor& x, at::ScalarType type, const Tensor& like) {
  return x.dim() == 1 && x.scalar_type() == type && x.device() == like.device() && plain(x);
}
inline bool floating(const Tensor& x) { return x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble; }

// Returns the memory of a tensor, null where it is undefined.
inline void* pointer(const Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }
inline void* pointer(const Maybe& x) { return x ? pointer(*x) : nullptr; }
inline Tensor tensor_or_none(const Maybe& x) { return x ? *x : Tensor(); }

// Returns a gradient that kernels can read: contiguous, without the lazy negation bit.
inline Tensor laid(const Tensor& gradient) { return gradient.resolve_neg().contiguous(); }

// Returns these gradients of an operator that is differentiable once: where `into` needs a gradient, theirs raise an error.
variable_list once(const char* operator_name, const Tensor& into, variable_list gradients);

// Returns whether the i-th of a function's operands needs a gradient; undefined ones among `operands` have no number in torch.
inline bool needs(AutogradContext* ctx, const variable_list& operands, size_t i) {
  size_t edge = 0;
  for (size_t before = 0; before < i; ++before) edge += operands[before].defined();
  return operands[i].defined() && ctx->needs_input_grad(edge);
}

// A function of the C ABI for each type of numbers, by its name without cs_ or cs_cuda_ and _f32, _f64 or _bf16.
class Kernel {
 public:
  explicit Kernel(const char* name) : name_(name) {}

  // Sizes that a launch on CUDA needs. entries: of the matrix; longest: of its rows, -1 where unknown; share: numbers that a
  // piece of a long row hands on; cuts: of its long rows, as CSR.cuts, undefined where unknown.
  struct Rows {
    int64_t entries, longest, share;
    Tensor cuts = {};
  };

  // Runs the function on x's device, for x's type. On CUDA `more` follows the arguments. Pointers and sizes go as they are: the C ABI's
  // types.
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
  std::atomic<void*> functions_[2][3] = {};
  std::atomic<int> opened_{0};
};

inline const Kernel::Rows kNoRows{0, 0, 0};

namespace edges {

// Sums over edges (edges.aggregate_edges in Python), without a gradient.
Tensor sum(const Tensor& x, Tensor target, int64_t rows, Maybe source, bool deterministic, bool ascending);

}  // namespace edges

}  // namespace cpp_operators
