// Calls of the native libraries from torch operators: functions by name, launches on a CUDA stream, errors.
#include "kernel.h"

#include <dlfcn.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <string>

#include "../common/chronoscale.h"

namespace cpp_operators {
namespace {

void* libraries[2] = {};  // the CPU's, CUDA's
bool emulated = false;
std::atomic<int> opened{0};  // how often

// Opens the libraries by their paths, "" for none. emulates: the second takes CPU tensors.
void open(std::string cpu, std::string cuda, bool emulates) {
  const std::string paths[2] = {std::move(cpu), std::move(cuda)};
  for (int at = 0; at < 2; ++at) {
    libraries[at] = paths[at].empty() ? nullptr : dlopen(paths[at].c_str(), RTLD_NOW | RTLD_LOCAL);
    TORCH_CHECK(paths[at].empty() || libraries[at], "chronoscale native libraries: ", dlerror());
  }
  emulated = emulates;
  ++opened;
}

int kind(const Tensor& x) { return x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kDouble ? 1 : 2; }

}  // namespace

bool on_cuda(const Tensor& x) { return emulated || x.is_cuda(); }

bool plain(const Tensor& x) {
  if (x.layout() != at::kStrided || !x.is_contiguous() || x.is_neg()) return false;
  const size_t end = (x.storage_offset() + x.numel()) * x.element_size();
  return x.numel() == 0 || x.storage().nbytes() >= end;
}

void require(bool fits, const char* operator_name, const char* operand) { TORCH_CHECK(fits, operator_name, ": ", operand, " does not fit"); }

variable_list once(const char* operator_name, const Tensor& into, variable_list gradients) {
  if (!at::GradMode::is_enabled() || !into.requires_grad()) return gradients;
  for (Tensor& gradient : gradients) {
    if (gradient.defined()) gradient = gradient.detach().requires_grad_();
  }
  torch::autograd::DelayedError error(std::string(operator_name) + " is differentiable once", static_cast<int64_t>(gradients.size()));
  return error.apply(std::move(gradients));
}

Kernel::Launch::Launch(const Tensor& x, const Rows& rows) : guard(x.device()) {
  static std::atomic<int (*)()> length{nullptr};
  static std::atomic<int> of{0};
  if (of != opened) length = reinterpret_cast<int (*)()>(libraries[1] ? dlsym(libraries[1], "cs_cuda_piece") : nullptr), of = opened.load();
  TORCH_CHECK(length.load(), "chronoscale native kernels: no CUDA library");
  const int64_t piece = length.load()(),
                pieces = rows.entries < piece || (rows.longest >= 0 && rows.longest < piece) ? 0 : (rows.entries + piece - 1) / piece;
  if (pieces) {  // without them no row is taken for a long one
    const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    rooms[0] = at::zeros({pieces}, x.options().dtype(at::kInt));
    rooms[1] = at::empty({2 * pieces * rows.share}, x.options().dtype(type));
    counters = rooms[0].data_ptr(), partial = rooms[1].data_ptr();
  }
  if (pieces && rows.cuts.defined()) cuts = rows.cuts.data_ptr(), count = rows.cuts.size(0);
  if (x.is_cuda()) {
    const c10::Stream current = c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device());
    if (cuts) rows.cuts.record_stream(current);  // an operand's own: nobody else marks it
    device = x.device().index(), stream = current.native_handle();
  }
}

void* Kernel::of(const Tensor& x) {
  static const char* const kinds[] = {"_f32", "_f64", "_bf16"};
  const int cuda = on_cuda(x), type = kind(x);
  if (opened_ != opened) {
    for (auto& library : functions_) {
      for (auto& function : library) function = nullptr;
    }
    opened_ = opened.load();
  }
  void* function = functions_[cuda][type];
  if (!function) {
    const std::string name = std::string(cuda ? "cs_cuda_" : "cs_") + name_ + kinds[type];
    function = libraries[cuda] ? dlsym(libraries[cuda], name.c_str()) : nullptr;
    TORCH_CHECK(function, "chronoscale native kernels: no ", name, " in the native libraries");
    functions_[cuda][type] = function;
  }
  return function;
}

void Kernel::succeed(int status) const {
  TORCH_CHECK(status != CS_ERROR_ARGUMENT, name_, ": an id is out of range; where ids were looked at before, they have been written since");
  TORCH_CHECK(status != CS_ERROR_MEMORY, "chronoscale native ", name_, ": out of memory");
  if (status == CS_OK) return;
  const auto last = reinterpret_cast<const char* (*)()>(libraries[1] ? dlsym(libraries[1], "cs_cuda_last_error") : nullptr);
  TORCH_CHECK(false, "chronoscale native ", name_, status == CS_ERROR_DEVICE ? ": the launch failed: " : ": no driver or device: ", last ? last() : "");
}

}  // namespace cpp_operators

TORCH_LIBRARY_FRAGMENT(chronoscale, m) {
  m.def("_open(str cpu, str cuda, bool emulated) -> ()", cpp_operators::open);
  m.def("_version() -> int", [] { return int64_t{CS_ABI_VERSION}; });
}
