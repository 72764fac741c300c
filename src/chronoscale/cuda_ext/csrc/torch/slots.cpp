// Attention of targets to their slots (slots.py).
#include "kernel.h"

namespace cpp_operators::slots {

Kernel forward_kernel("slots"), backward_kernel("slots_grad");
constexpr int64_t kMostSlots = 1024;

// What attends, as slots_reference.Asked has it. Raises for what does not fit.
struct Asked {
  Tensor wanted, source, slot, there, elapsed, edge, frequency, phase, keep;
  int64_t targets, fanout, heads, width, edges, clock;
  bool by_head, nothing;

  explicit Asked(const variable_list& given)
      : wanted(given[0]),
        source(given[1]),
        slot(given[2]),
        there(given[3]),
        elapsed(given[4]),
        edge(given[5]),
        frequency(given[6]),
        phase(given[7]),
        keep(given[8]) {
    require(wanted.dim() == 3 && floating(wanted), "attend", "wanted");
    by_head = !wanted.is_contiguous();
    require(plain(by_head ? wanted.transpose(0, 1) : wanted), "attend", "wanted");
    require(source.dim() == 2 && slot.dim() == 2, "attend", "source");
    targets = wanted.size(0), heads = wanted.size(1), fanout = slot.size(1), width = source.size(1);
    edges = edge.defined() && edge.dim() == 3 ? edge.size(2) : 0;
    clock = frequency.defined() && frequency.dim() == 1 ? frequency.size(0) : 0;
    const auto type = wanted.scalar_type();
    sized("source", source, type, {source.size(0), width});
    sized("slot", slot, at::kLong, {targets, fanout});
    sized("there", there, at::kBool, {targets, fanout});
    sized("elapsed", elapsed, type, {targets, fanout});
    sized("edge", edge, type, {targets, fanout, edges});
    sized("frequency", frequency, type, {clock});
    sized("phase", phase, type, {clock});
    sized("keep", keep, type, {targets, heads, fanout});
    require(!(elapsed.defined() && elapsed.requires_grad()) && !(keep.defined() && keep.requires_grad()), "attend", "a constant");
    require(heads >= 1 && fanout <= kMostSlots && wanted.size(2) == width + edges + clock, "attend", "wanted");
    nothing = slot.numel() == 0 || wanted.size(2) == 0;
  }

  template <class... Made>
  void run(Kernel& kernel, Made... made) const {
    kernel(wanted, {targets, -1, clock}, std::tuple<>(), targets, fanout, heads, width, edges, clock, source.size(0), pointer(wanted),
           pointer(source), pointer(slot), pointer(there), pointer(elapsed), pointer(edge), pointer(frequency), pointer(phase),
           pointer(keep), static_cast<int>(by_head), made...);
  }

 private:
  void sized(const char* name, const Tensor& x, at::ScalarType type, at::IntArrayRef sizes) const {
    require(!x.defined() || (x.sizes() == sizes && x.scalar_type() == type && x.device() == wanted.device() && plain(x)), "attend", name);
  }
};

// A tensor like another one, as that lies in memory.
Tensor like(const Tensor& x, bool zeros) { return zeros ? at::zeros_like(x) : at::empty_like(x); }

Tensor attended(const Asked& given, Tensor* weights) {
  const Tensor sums = like(given.wanted, given.nothing);
  *weights = at::empty({given.targets, given.heads, given.fanout}, given.wanted.options());
  given.run(forward_kernel, pointer(*weights), pointer(sums));
  return sums;
}

struct Attend : torch::autograd::Function<Attend> {
  static Tensor forward(AutogradContext* ctx, const Tensor& wanted, const Tensor& source, const Tensor& slot, const Tensor& there,
                        const Maybe& elapsed, const Maybe& edge, const Maybe& frequency, const Maybe& phase, const Maybe& keep) {
    at::AutoDispatchBelowADInplaceOrView below;
    variable_list given{wanted, source, slot, there, held(elapsed), held(edge), held(frequency), held(phase), held(keep)};
    Tensor weights;
    const Tensor sums = attended(Asked(given), &weights);
    given.push_back(weights);
    ctx->save_for_backward(std::move(given));
    return sums;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    const Asked given(saved);
    const bool clock = needs(ctx, saved, 6) || needs(ctx, saved, 7);
    auto made = [&](const Tensor& x, bool wanted, bool zeros) { return wanted && x.defined() ? like(x, zeros) : Tensor(); };
    const Tensor into_wanted = made(given.wanted, needs(ctx, saved, 0), given.nothing);
    Tensor into_source = made(given.source, needs(ctx, saved, 1), true);
    const Tensor into_edge = made(given.edge, needs(ctx, saved, 5), given.nothing),
                 into_frequency = made(given.frequency, clock, given.nothing);
    const Tensor into_phase = made(given.phase, clock, given.nothing);
    Tensor into = gradients[0].resolve_neg();
    into = given.by_head ? into.transpose(0, 1).contiguous().transpose(0, 1) : into.contiguous();
    if (on_cuda(into)) {
      const Tensor scores = at::empty_like(saved[9]);
      const Tensor rows = into_source.defined() ? at::empty({given.slot.numel(), given.width}, into.options()) : Tensor();
      const Tensor turns = clock ? at::empty({given.targets, 2, given.clock}, into.options()) : Tensor();
      given.run(backward_kernel, pointer(saved[9]), pointer(into), pointer(scores), pointer(into_wanted), pointer(rows), pointer(into_edge),
                pointer(turns), pointer(into_frequency), pointer(into_phase));
      if (rows.defined()) {  // slot by slot; those that are not there are no row's
        const int64_t sources = given.source.size(0);
        into_source =
            edges::sum(rows, given.slot.masked_fill(given.there.logical_not(), sources).flatten(), sources, std::nullopt, true, false);
      }
    } else {
      given.run(backward_kernel, pointer(saved[9]), pointer(into), pointer(into_wanted), pointer(into_source), pointer(into_edge),
                pointer(into_frequency), pointer(into_phase));
    }
    return once("attend", gradients[0],
                {into_wanted, into_source, Tensor(), Tensor(), Tensor(), into_edge, into_frequency, into_phase, Tensor()});
  }
};

Tensor attend(const Tensor& wanted, const Tensor& source, const Tensor& slot, const Tensor& there, const Maybe& elapsed, const Maybe& edge,
              const Maybe& frequency, const Maybe& phase, const Maybe& keep) {
  Tensor weights;
  return attended(Asked({wanted, source, slot, there, held(elapsed), held(edge), held(frequency), held(phase), held(keep)}), &weights);
}

Tensor graded(const Tensor& wanted, const Tensor& source, const Tensor& slot, const Tensor& there, const Maybe& elapsed, const Maybe& edge,
              const Maybe& frequency, const Maybe& phase, const Maybe& keep) {
  return Attend::apply(wanted, source, slot, there, elapsed, edge, frequency, phase, keep);
}

}  // namespace cpp_operators::slots

TORCH_LIBRARY_FRAGMENT(chronoscale, m) {
  m.def(
      "_attend(Tensor wanted, Tensor source, Tensor slot, Tensor there, Tensor? elapsed, Tensor? edge, Tensor? frequency, Tensor? phase, "
      "Tensor? keep) -> Tensor");
}
TORCH_LIBRARY_IMPL(chronoscale, CPU, m) { m.impl("_attend", cpp_operators::slots::attend); }
TORCH_LIBRARY_IMPL(chronoscale, CUDA, m) { m.impl("_attend", cpp_operators::slots::attend); }
TORCH_LIBRARY_IMPL(chronoscale, Autograd, m) { m.impl("_attend", cpp_operators::slots::graded); }
