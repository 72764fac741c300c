// Torch operator of the gates of a GRU (operators/gates.py): cs_gates with its gradient.
#include "kernel.h"

namespace cpp_operators::gates {

Kernel forward_kernel("gates"), backward_kernel("gates_grad");

void fits(const Tensor& from_input, const Tensor& from_memory, const Tensor& memory, const Tensor& mask) {
  require(memory.dim() == 2 && floating(memory) && plain(memory), "gates", "memory");
  const int64_t rows = memory.size(0), width = 3 * memory.size(1);
  auto both = [&](const Tensor& x) {
    return x.dim() == 2 && x.size(0) == rows && x.size(1) == width && x.scalar_type() == memory.scalar_type() &&
           x.device() == memory.device() && plain(x);
  };
  require(both(from_input), "gates", "from_input");
  require(both(from_memory), "gates", "from_memory");
  require(vector(mask, at::kBool, memory) && mask.size(0) == rows, "gates", "mask");
}

Tensor gates(const Tensor& from_input, const Tensor& from_memory, const Tensor& memory, const Tensor& mask) {
  fits(from_input, from_memory, memory, mask);
  Tensor out = at::empty_like(memory);
  forward_kernel(memory, kNoRows, {}, memory.size(0), memory.size(1),
                 pointer(from_input), pointer(from_memory), pointer(memory), pointer(mask),
                 pointer(out));
  return out;
}

struct Gates : torch::autograd::Function<Gates> {
  static Tensor forward(AutogradContext* ctx, const Tensor& from_input, const Tensor& from_memory, const Tensor& memory, const Tensor& mask) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({from_input, from_memory, memory, mask});
    return gates(from_input, from_memory, memory, mask);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &from_input = saved[0], &from_memory = saved[1], &memory = saved[2], &mask = saved[3];
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor into = laid(gradients[0]), grad_from_input = at::empty_like(from_input), grad_from_memory = at::empty_like(from_memory);
    const Tensor grad_memory = ctx->needs_input_grad(2) ? at::empty_like(memory) : Tensor();
    backward_kernel(memory, kNoRows, {}, memory.size(0), memory.size(1),
                    pointer(from_input), pointer(from_memory), pointer(memory), pointer(mask),
                    pointer(into), pointer(grad_from_input), pointer(grad_from_memory), pointer(grad_memory));
    return once("gates", gradients[0], {grad_from_input, grad_from_memory, grad_memory, Tensor()});
  }
};

Tensor graded(const Tensor& from_input, const Tensor& from_memory, const Tensor& memory, const Tensor& mask) {
  return Gates::apply(from_input, from_memory, memory, mask);
}

}  // namespace cpp_operators::gates

TORCH_LIBRARY_FRAGMENT(chronoscale, m) { m.def("_gates(Tensor from_input, Tensor from_memory, Tensor memory, Tensor mask) -> Tensor"); }
TORCH_LIBRARY_IMPL(chronoscale, CPU, m) { m.impl("_gates", cpp_operators::gates::gates); }
TORCH_LIBRARY_IMPL(chronoscale, CUDA, m) { m.impl("_gates", cpp_operators::gates::gates); }
TORCH_LIBRARY_IMPL(chronoscale, Autograd, m) { m.impl("_gates", cpp_operators::gates::graded); }
