// Torch operators on edges (FAST, section 4.3; operators/edges.py, tables.py, edge_softmax.py), with their gradients.
#include "kernel.h"

namespace cpp_operators::edges {

Kernel edges_kernel("edges"), segments_kernel("segments"), gather_kernel("gather"), softmax_kernel("edge_softmax"),
    softmax_grad_kernel("edge_softmax_grad");
constexpr int64_t kMost = int64_t{1} << 31;  // ids are numbered in int32

bool matrix(const Tensor& x) { return x.dim() == 2 && floating(x) && plain(x); }
bool ids(const Tensor& x, const Tensor& like) {
  return x.dim() == 1 && (x.scalar_type() == at::kInt || x.scalar_type() == at::kLong) && x.device() == like.device() && plain(x) &&
         x.size(0) < kMost;
}

Tensor gather(const Tensor& cached, const Tensor& sent, const Tensor& index) {
  require(matrix(cached), "gather_rows", "cached");
  require(matrix(sent) && sent.scalar_type() == cached.scalar_type() && sent.device() == cached.device() && sent.size(1) == cached.size(1),
          "gather_rows", "sent");
  require(ids(index, cached) && cached.size(0) + sent.size(0) < kMost, "gather_rows", "index");
  const Tensor out = at::empty({index.size(0), cached.size(1)}, cached.options());
  gather_kernel(cached, {index.size(0), 0, 0}, {}, index.size(0), pointer(index), static_cast<int>(index.scalar_type() == at::kLong),
                cached.size(0), pointer(cached), sent.size(0), pointer(sent), cached.size(1), pointer(out));
  return out;
}

Tensor sum(const Tensor& x, Tensor target, int64_t rows, Maybe source, bool deterministic, bool ascending) {
  require(matrix(x) && x.size(0) <= kMost, "aggregate_edges", "x");
  require(ids(target, x) && (source || target.size(0) == x.size(0)), "aggregate_edges", "target");
  require(!source || (ids(*source, x) && source->scalar_type() == target.scalar_type() && source->size(0) == target.size(0)),
          "aggregate_edges", "source");
  require(rows >= 0 && rows < kMost, "aggregate_edges", "rows");
  const bool segments = on_cuda(x) && deterministic;
  const Tensor out = on_cuda(x) ? at::zeros({rows, x.size(1)}, x.options()) : at::empty({rows, x.size(1)}, x.options());
  if (segments && !ascending) {
    const auto [sorted, order] = at::sort(target, /*stable=*/true, /*dim=*/0, /*descending=*/false);
    target = sorted, source = source ? source->index_select(0, order) : order.to(target.scalar_type());
  }
  (segments ? segments_kernel : edges_kernel)(x, {target.size(0), segments ? -1 : 0, x.size(1)}, {}, rows, target.size(0), pointer(target),
                                              pointer(source), static_cast<int>(target.scalar_type() == at::kLong), x.size(0), pointer(x),
                                              x.size(1), pointer(out));
  return out;
}

Tensor shares(Kernel& kernel, const Tensor& input, const Maybe& into, const Tensor& indptr, int64_t longest, int64_t share) {
  require(matrix(input) && input.size(0) < kMost, "edge_softmax", "scores");
  require(!into || (matrix(*into) && into->sizes() == input.sizes() && into->scalar_type() == input.scalar_type() &&
                    into->device() == input.device()),
          "edge_softmax", "into");
  require(ids(indptr, input) && indptr.scalar_type() == at::kLong && indptr.size(0) > 0, "edge_softmax", "indptr");
  const Tensor out = at::empty_like(input);
  const int64_t rows = indptr.size(0) - 1, entries = input.size(0), heads = input.size(1);
  const Kernel::Rows launch{entries, longest, share * heads};
  if (on_cuda(input)) {
    if (into) kernel(input, launch, {}, rows, heads, pointer(indptr), pointer(input), pointer(into), pointer(out));
    else kernel(input, launch, {}, rows, heads, pointer(indptr), pointer(input), pointer(out));
  } else {
    if (into) kernel(input, launch, {}, rows, entries, heads, pointer(indptr), pointer(input), pointer(into), pointer(out));
    else kernel(input, launch, {}, rows, entries, heads, pointer(indptr), pointer(input), pointer(out));
  }
  return out;
}

Tensor graded_sum(const Tensor& x, const Tensor& target, int64_t rows, const Maybe& source, bool deterministic, bool ascending);
Tensor graded_gather(const Tensor& cached, const Tensor& sent, const Tensor& index);

struct Sum : torch::autograd::Function<Sum> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& target, int64_t rows, const Maybe& source, bool deterministic,
                        bool ascending) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({target, tensor_or_none(source)});
    ctx->saved_data["rows"] = x.size(0), ctx->saved_data["deterministic"] = deterministic;
    return sum(x, target, rows, source, deterministic, ascending);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &target = saved[0], &source = saved[1], into = laid(gradients[0]);
    const Tensor back = source.defined() ? graded_sum(into, source, ctx->saved_data["rows"].toInt(), target,
                                                      ctx->saved_data["deterministic"].toBool(), false)
                                         : graded_gather(into, at::empty({0, into.size(1)}, into.options()), target);
    return {back, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

struct Gather : torch::autograd::Function<Gather> {
  static Tensor forward(AutogradContext* ctx, const Tensor& cached, const Tensor& sent, const Tensor& index) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({index});
    ctx->saved_data["cached"] = cached.size(0), ctx->saved_data["sent"] = sent.size(0);
    return gather(cached, sent, index);
  }

  // Where one table needs no gradient, its rows take no memory.
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const Tensor into = laid(gradients[0]), index = ctx->get_saved_variables()[0];
    const int64_t cached = ctx->saved_data["cached"].toInt(), sent = ctx->saved_data["sent"].toInt();
    const bool first = ctx->needs_input_grad(0), second = ctx->needs_input_grad(1);
    at::AutoDispatchBelowADInplaceOrView below;
    if (first && second) {
      const Tensor both = sum(into, index, cached + sent, std::nullopt, true, false);
      return once("gather_rows", gradients[0], {both.narrow(0, 0, cached), both.narrow(0, cached, sent), Tensor()});
    }
    const int64_t begin = first ? 0 : cached, rows = first ? cached : sent;
    Tensor gradient;
    if (on_cuda(into)) {  // where an edge to no row is left out, and the host waits for nothing
      gradient = sum(into, index - begin, rows, std::nullopt, true, false);
    } else {
      const Tensor chosen = at::nonzero(index.ge(begin).logical_and_(index.lt(begin + rows))).select(1, 0).to(index.scalar_type());
      gradient = sum(into, index.index_select(0, chosen).sub_(begin), rows, chosen, true, false);
    }
    return once("gather_rows", gradients[0], {first ? gradient : Tensor(), first ? Tensor() : gradient, Tensor()});
  }
};

struct Softmax : torch::autograd::Function<Softmax> {
  static Tensor forward(AutogradContext* ctx, const Tensor& scores, const Tensor& indptr, int64_t longest) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor out = shares(softmax_kernel, scores, std::nullopt, indptr, longest, 2);
    ctx->save_for_backward({out, indptr});
    ctx->saved_data["longest"] = longest;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor gradient = shares(softmax_grad_kernel, saved[0], laid(gradients[0]), saved[1], ctx->saved_data["longest"].toInt(), 1);
    return once("edge_softmax", gradients[0], {gradient, Tensor(), Tensor()});
  }
};

Tensor graded_sum(const Tensor& x, const Tensor& target, int64_t rows, const Maybe& source, bool deterministic, bool ascending) {
  return Sum::apply(x, target, rows, source, deterministic, ascending);
}
Tensor graded_gather(const Tensor& cached, const Tensor& sent, const Tensor& index) { return Gather::apply(cached, sent, index); }
Tensor graded_softmax(const Tensor& scores, const Tensor& indptr, int64_t longest) { return Softmax::apply(scores, indptr, longest); }

Tensor plain_sum(const Tensor& x, const Tensor& target, int64_t rows, const Maybe& source, bool deterministic, bool ascending) {
  return sum(x, target, rows, source, deterministic, ascending);
}
Tensor plain_softmax(const Tensor& scores, const Tensor& indptr, int64_t longest) {
  return shares(softmax_kernel, scores, std::nullopt, indptr, longest, 2);
}

}  // namespace cpp_operators::edges

TORCH_LIBRARY_FRAGMENT(chronoscale, m) {
  m.def("_aggregate_edges(Tensor x, Tensor target, int rows, Tensor? source, bool deterministic, bool ascending) -> Tensor");
  m.def("_gather_rows(Tensor cached, Tensor sent, Tensor index) -> Tensor");
  m.def("_edge_softmax(Tensor scores, Tensor indptr, int longest) -> Tensor");
}
#define CS_SERVE(device)                                          \
  TORCH_LIBRARY_IMPL(chronoscale, device, m) {                    \
    m.impl("_aggregate_edges", cpp_operators::edges::plain_sum);  \
    m.impl("_gather_rows", cpp_operators::edges::gather);         \
    m.impl("_edge_softmax", cpp_operators::edges::plain_softmax); \
  }
CS_SERVE(CPU)
CS_SERVE(CUDA)
#undef CS_SERVE
TORCH_LIBRARY_IMPL(chronoscale, Autograd, m) {
  m.impl("_aggregate_edges", cpp_operators::edges::graded_sum);
  m.impl("_gather_rows", cpp_operators::edges::graded_gather);
  m.impl("_edge_softmax", cpp_operators::edges::graded_softmax);
}
