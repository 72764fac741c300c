// The gates of a GRU (gates.py).
#include "kernel.h"

namespace cpp_operators::gates {

Kernel forward_kernel("gates"), backward_kernel("gates_grad");

void fits(const Tensor& given, const Tensor& kept, const Tensor& memory, const Tensor& there) {
  require(memory.dim() == 2 && floating(memory) && plain(memory), "gates", "memory");
  const int64_t rows = memory.size(0), width = 3 * memory.size(1);
  auto both = [&](const Tensor& x) {
    return x.dim() == 2 && x.size(0) == rows && x.size(1) == width && x.scalar_type() == memory.scalar_type() &&
           x.device() == memory.device() && plain(x);
  };
  require(both(given), "gates", "given");
  require(both(kept), "gates", "kept");
  require(vector(there, at::kBool, memory) && there.size(0) == rows, "gates", "there");
}

Tensor gates(const Tensor& given, const Tensor& kept, const Tensor& memory, const Tensor& there) {
  fits(given, kept, memory, there);
  Tensor out = at::empty_like(memory);
  forward_kernel(memory, kNoRows, {}, memory.size(0), memory.size(1), pointer(given), pointer(kept), pointer(memory), pointer(there),
                 pointer(out));
  return out;
}

struct Gates : torch::autograd::Function<Gates> {
  static Tensor forward(AutogradContext* ctx, const Tensor& given, const Tensor& kept, const Tensor& memory, const Tensor& there) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({given, kept, memory, there});
    return gates(given, kept, memory, there);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &given = saved[0], &kept = saved[1], &memory = saved[2], &there = saved[3];
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor into = laid(gradients[0]), to_given = at::empty_like(given), to_kept = at::empty_like(kept);
    const Tensor to_memory = ctx->needs_input_grad(2) ? at::empty_like(memory) : Tensor();
    backward_kernel(memory, kNoRows, {}, memory.size(0), memory.size(1), pointer(given), pointer(kept), pointer(memory), pointer(there),
                    pointer(into), pointer(to_given), pointer(to_kept), pointer(to_memory));
    return once("gates", gradients[0], {to_given, to_kept, to_memory, Tensor()});
  }
};

Tensor graded(const Tensor& given, const Tensor& kept, const Tensor& memory, const Tensor& there) {
  return Gates::apply(given, kept, memory, there);
}

}  // namespace cpp_operators::gates

TORCH_LIBRARY_FRAGMENT(chronoscale, m) { m.def("_gates(Tensor given, Tensor kept, Tensor memory, Tensor there) -> Tensor"); }
TORCH_LIBRARY_IMPL(chronoscale, CPU, m) { m.impl("_gates", cpp_operators::gates::gates); }
TORCH_LIBRARY_IMPL(chronoscale, CUDA, m) { m.impl("_gates", cpp_operators::gates::gates); }
TORCH_LIBRARY_IMPL(chronoscale, Autograd, m) { m.impl("_gates", cpp_operators::gates::graded); }
