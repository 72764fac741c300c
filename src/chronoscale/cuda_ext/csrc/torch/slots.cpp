// Torch operator of attention to sampled slots (operators/slots.py): cs_slots with its gradients.
#include "kernel.h"

namespace cpp_operators::slots {

Kernel forward_kernel("slots"), backward_kernel("slots_grad");
constexpr int64_t kMostSlots = 1024;

// Operands of attention (SlotOperands in Python), checked: throws for one that does not fit.
struct Operands {
  Tensor query, source, slot, mask, elapsed, edge, frequency, phase, keep;
  int64_t targets, fanout, heads, width, edges, clock;
  bool by_head, nothing;

  explicit Operands(const variable_list& operands)
      : query(operands[0]),
        source(operands[1]),
        slot(operands[2]),
        mask(operands[3]),
        elapsed(operands[4]),
        edge(operands[5]),
        frequency(operands[6]),
        phase(operands[7]),
        keep(operands[8]) {
    require(query.dim() == 3 && floating(query), "attend", "query");
    by_head = !query.is_contiguous();
    require(plain(by_head ? query.transpose(0, 1) : query), "attend", "query");
    require(source.dim() == 2 && slot.dim() == 2, "attend", "source");
    targets = query.size(0), heads = query.size(1), fanout = slot.size(1), width = source.size(1);
    edges = edge.defined() && edge.dim() == 3 ? edge.size(2) : 0;
    clock = frequency.defined() && frequency.dim() == 1 ? frequency.size(0) : 0;
    const auto type = query.scalar_type();
    sized("source", source, type, {source.size(0), width});
    sized("slot", slot, at::kLong, {targets, fanout});
    sized("mask", mask, at::kBool, {targets, fanout});
    sized("elapsed", elapsed, type, {targets, fanout});
    sized("edge", edge, type, {targets, fanout, edges});
    sized("frequency", frequency, type, {clock});
    sized("phase", phase, type, {clock});
    sized("keep", keep, type, {targets, heads, fanout});
    require(!(elapsed.defined() && elapsed.requires_grad()) && !(keep.defined() && keep.requires_grad()), "attend", "a constant");
    require(heads >= 1 && fanout <= kMostSlots && query.size(2) == width + edges + clock, "attend", "query");
    nothing = slot.numel() == 0 || query.size(2) == 0;
  }

  template <class... Outputs>
  void run(Kernel& kernel, Outputs... outputs) const {
    kernel(query, {targets, -1, clock}, std::tuple<>(), targets, fanout, heads, width, edges, clock, source.size(0), pointer(query),
           pointer(source), pointer(slot), pointer(mask), pointer(elapsed), pointer(edge), pointer(frequency), pointer(phase),
           pointer(keep), static_cast<int>(by_head), outputs...);
  }

 private:
  void sized(const char* name, const Tensor& x, at::ScalarType type, at::IntArrayRef sizes) const {
    require(!x.defined() || (x.sizes() == sizes && x.scalar_type() == type && x.device() == query.device() && plain(x)), "attend", name);
  }
};

// Returns a tensor with the shape and strides of another one.
Tensor like(const Tensor& x, bool zeros) { return zeros ? at::zeros_like(x) : at::empty_like(x); }

Tensor attended(const Operands& operands, Tensor* weights) {
  const Tensor sums = like(operands.query, operands.nothing);
  *weights = at::empty({operands.targets, operands.heads, operands.fanout}, operands.query.options());
  operands.run(forward_kernel, pointer(*weights), pointer(sums));
  return sums;
}

struct Attend : torch::autograd::Function<Attend> {
  static Tensor forward(AutogradContext* ctx, const Tensor& query, const Tensor& source, const Tensor& slot, const Tensor& mask,
                        const Maybe& elapsed, const Maybe& edge, const Maybe& frequency, const Maybe& phase, const Maybe& keep) {
    at::AutoDispatchBelowADInplaceOrView below;
    variable_list operands{query, source, slot, mask,
                           tensor_or_none(elapsed), tensor_or_none(edge), tensor_or_none(frequency), tensor_or_none(phase), tensor_or_none(keep)};
    Tensor weights;
    const Tensor sums = attended(Operands(operands), &weights);
    operands.push_back(weights);
    ctx->save_for_backward(std::move(operands));
    return sums;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    const Operands operands(saved);
    const bool clock = needs(ctx, saved, 6) || needs(ctx, saved, 7);
    auto outputs = [&](const Tensor& x, bool query, bool zeros) { return query && x.defined() ? like(x, zeros) : Tensor(); };
    const Tensor into_query = outputs(operands.query, needs(ctx, saved, 0), operands.nothing);
    Tensor into_source = outputs(operands.source, needs(ctx, saved, 1), true);
    const Tensor into_edge = outputs(operands.edge, needs(ctx, saved, 5), operands.nothing),
                 into_frequency = outputs(operands.frequency, clock, operands.nothing);
    const Tensor into_phase = outputs(operands.phase, clock, operands.nothing);
    Tensor into = gradients[0].resolve_neg();
    into = operands.by_head ? into.transpose(0, 1).contiguous().transpose(0, 1) : into.contiguous();
    if (on_cuda(into)) {
      const Tensor scores = at::empty_like(saved[9]);
      const Tensor rows = into_source.defined() ? at::empty({operands.slot.numel(), operands.width}, into.options()) : Tensor();
      const Tensor turns = clock ? at::empty({operands.targets, 2, operands.clock}, into.options()) : Tensor();
      operands.run(backward_kernel, pointer(saved[9]), pointer(into), pointer(scores), pointer(into_query), pointer(rows), pointer(into_edge),
                pointer(turns), pointer(into_frequency), pointer(into_phase));
      if (rows.defined()) {  // slot by slot; empty slots get a row outside the sources
        const int64_t sources = operands.source.size(0);
        into_source =
            edges::sum(rows, operands.slot.masked_fill(operands.mask.logical_not(), sources).flatten(), sources, std::nullopt, true, false);
      }
    } else {
      operands.run(backward_kernel, pointer(saved[9]), pointer(into), pointer(into_query), pointer(into_source), pointer(into_edge),
                pointer(into_frequency), pointer(into_phase));
    }
    return once("attend", gradients[0],
                {into_query, into_source, Tensor(), Tensor(), Tensor(), into_edge, into_frequency, into_phase, Tensor()});
  }
};

Tensor attend(const Tensor& query, const Tensor& source, const Tensor& slot, const Tensor& mask, const Maybe& elapsed, const Maybe& edge,
              const Maybe& frequency, const Maybe& phase, const Maybe& keep) {
  Tensor weights;
  return attended(Operands({query, source, slot, mask,
                  tensor_or_none(elapsed), tensor_or_none(edge), tensor_or_none(frequency), tensor_or_none(phase), tensor_or_none(keep)}), &weights);
}

Tensor graded(const Tensor& query, const Tensor& source, const Tensor& slot, const Tensor& mask, const Maybe& elapsed, const Maybe& edge,
              const Maybe& frequency, const Maybe& phase, const Maybe& keep) {
  return Attend::apply(query, source, slot, mask, elapsed, edge, frequency, phase, keep);
}

}  // namespace cpp_operators::slots

TORCH_LIBRARY_FRAGMENT(chronoscale, m) {
  m.def(
      "_attend(Tensor query, Tensor source, Tensor slot, Tensor mask, Tensor? elapsed, Tensor? edge, Tensor? frequency, Tensor? phase, "
      "Tensor? keep) -> Tensor");
}
TORCH_LIBRARY_IMPL(chronoscale, CPU, m) { m.impl("_attend", cpp_operators::slots::attend); }
TORCH_LIBRARY_IMPL(chronoscale, CUDA, m) { m.impl("_attend", cpp_operators::slots::attend); }
TORCH_LIBRARY_IMPL(chronoscale, Autograd, m) { m.impl("_attend", cpp_operators::slots::graded); }
