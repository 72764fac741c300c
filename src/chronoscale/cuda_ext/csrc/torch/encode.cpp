// Torch operator of encodings of elapsed times (operators/encoding.py): cs_encode with its gradient.
#include "kernel.h"

namespace cpp_operators::encode {

Kernel kernel("encode"), grad_kernel("encode_grad");  // the second only on CUDA

// Returns cos(frequency * elapsed + phase), and writes the sine to `sine` unless null.
Tensor cosines(const Tensor& elapsed, const Tensor& frequency, const Tensor& phase, Tensor* sine) {
  require(elapsed.dim() == 1 && floating(elapsed) && plain(elapsed) && !elapsed.requires_grad(), "encode", "elapsed");
  require(vector(phase, elapsed.scalar_type(), elapsed), "encode", "phase");
  require(vector(frequency, elapsed.scalar_type(), elapsed) && frequency.size(0) == phase.size(0), "encode", "frequency");
  const Tensor cosine = at::empty({elapsed.size(0), phase.size(0)}, elapsed.options());
  if (sine) *sine = at::empty_like(cosine);
  kernel(elapsed, kNoRows, std::tuple<>(), elapsed.size(0), phase.size(0), pointer(elapsed), pointer(frequency), pointer(phase),
         pointer(cosine), sine ? pointer(*sine) : nullptr);
  return cosine;
}

Tensor encode(const Tensor& elapsed, const Tensor& frequency, const Tensor& phase) { return cosines(elapsed, frequency, phase, nullptr); }

struct Encode : torch::autograd::Function<Encode> {
  static Tensor forward(AutogradContext* ctx, const Tensor& elapsed, const Tensor& frequency, const Tensor& phase) {
    at::AutoDispatchBelowADInplaceOrView below;
    Tensor sine;
    const Tensor cosine = cosines(elapsed, frequency, phase, &sine);
    ctx->save_for_backward({elapsed, sine});
    return cosine;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    if (on_cuda(saved[1])) {
      const Tensor into = laid(gradients[0]), frequency = at::empty({into.size(1)}, into.options()), phase = at::empty_like(frequency);
      grad_kernel(into, {into.size(0), -1, into.size(1)}, std::tuple<>(), into.size(0), into.size(1), pointer(saved[0]), pointer(saved[1]),
                  pointer(into), pointer(frequency), pointer(phase));
      return once("encode", gradients[0], {Tensor(), frequency, phase});
    }
    const Tensor to_angle = gradients[0] * saved[1];
    const Tensor to_frequency = ctx->needs_input_grad(1) ? at::matmul(saved[0], to_angle).neg_() : Tensor();
    const Tensor to_phase = ctx->needs_input_grad(2) ? to_angle.sum(0).neg_() : Tensor();
    return once("encode", gradients[0], {Tensor(), to_frequency, to_phase});
  }
};

Tensor graded(const Tensor& elapsed, const Tensor& frequency, const Tensor& phase) {
  const bool forward = frequency._fw_grad(0).defined() || phase._fw_grad(0).defined();  // which apply refuses
  const bool needs_gradient = forward || (at::GradMode::is_enabled() && (frequency.requires_grad() || phase.requires_grad()));
  if (needs_gradient) return Encode::apply(elapsed, frequency, phase);
  at::AutoDispatchBelowADInplaceOrView below;
  return encode(elapsed, frequency, phase);
}

}  // namespace cpp_operators::encode

TORCH_LIBRARY_FRAGMENT(chronoscale, m) { m.def("_encode(Tensor elapsed, Tensor frequency, Tensor phase) -> Tensor"); }
TORCH_LIBRARY_IMPL(chronoscale, CPU, m) { m.impl("_encode", cpp_operators::encode::encode); }
TORCH_LIBRARY_IMPL(chronoscale, CUDA, m) { m.impl("_encode", cpp_operators::encode::encode); }
TORCH_LIBRARY_IMPL(chronoscale, Autograd, m) { m.impl("_encode", cpp_operators::encode::graded); }
