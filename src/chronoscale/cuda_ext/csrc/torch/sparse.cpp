// Torch operators of aggregation over a sparse matrix and of its increment: cs_aggregate and cs_increment with their gradients. Ids are
// trusted, since CSR.check has checked them. `transpose` lists the transpose's indptr, indices and, where there are some, values, for
// gradients.
#include "kernel.h"

namespace cpp_operators::sparse {

Kernel aggregate_kernel("aggregate"), increment_kernel("increment");

at::ScalarType summed(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

struct Matrix {
  Tensor indptr, indices, values;  // values may be undefined
  int64_t longest = -1;
  Tensor cuts;  // of rows that are long on CUDA, where they are known

  int64_t rows() const { return indptr.size(0) - 1; }
};

Matrix matrix_of(at::TensorList tensors) {
  return tensors.empty() ? Matrix{} : Matrix{tensors[0], tensors[1], tensors.size() > 2 ? tensors[2] : Tensor()};
}

void fits(const char* operator_name, const Matrix& m, int64_t columns, const Tensor& x) {
  require(x.dim() == 2 && (floating(x) || x.scalar_type() == at::kBFloat16) && x.size(0) == columns && plain(x), operator_name, "x");
  require(x.device() == m.indptr.device(), operator_name, "x");
}

void fits_sums(const Tensor& sums, int64_t rows, const Tensor& x) {
  const bool sized = x.dim() == 2 && sums.dim() == 2 && sums.size(0) == rows && sums.size(1) == x.size(1);
  require(sized && sums.scalar_type() == summed(x) && sums.device() == x.device() && plain(sums), "increment", "sums");
}

Tensor sum(const Matrix& m, const Tensor& x) {
  const Tensor out = at::empty({m.rows(), x.size(1)}, x.options().dtype(summed(x)));
  aggregate_kernel(x, {m.indices.size(0), m.longest, x.size(1), m.cuts}, std::make_tuple(static_cast<void*>(nullptr)), m.rows(),
                   pointer(m.indptr), pointer(m.indices), pointer(m.values), pointer(x), x.size(1), pointer(out));
  return out;
}

Tensor add(const Tensor& sums, const Tensor& rows, const Matrix& m, const Tensor& fresh, const Tensor& x) {
  const Tensor touched = at::empty({rows.size(0), x.size(1)}, sums.options());
  increment_kernel(x, {m.indices.size(0), m.longest, x.size(1), m.cuts}, {}, rows.size(0), pointer(rows), pointer(fresh), pointer(m.indptr),
                   pointer(m.indices), pointer(m.values), pointer(x), x.size(1), pointer(sums), pointer(touched));
  return touched;
}

// Aggregation; `transpose` is defined where x needs a gradient.
struct Aggregate : torch::autograd::Function<Aggregate> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Matrix& m, const Matrix& transpose) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({m.indptr, m.indices, m.values, transpose.indptr, transpose.indices, transpose.values});
    return sum(m, x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients);
};

Tensor graded(const Matrix& m, const Tensor& x, const Matrix& transpose) { return Aggregate::apply(x, m, transpose); }

// Returns the gradient of x from that of the sums, by the matrix that was saved from the i-th on and its transpose behind it.
Tensor backwards(const variable_list& saved, size_t i, const Tensor& into) {
  return graded({saved[i + 3], saved[i + 4], saved[i + 5]}, laid(into), {saved[i], saved[i + 1], saved[i + 2]});
}

variable_list Aggregate::backward(AutogradContext* ctx, variable_list gradients) {
  return {backwards(ctx->get_saved_variables(), 0, gradients[0]), Tensor(), Tensor()};
}

struct Increment : torch::autograd::Function<Increment> {
  static variable_list forward(AutogradContext* ctx, const Tensor& sums, const Tensor& x, const Tensor& rows, const Maybe& fresh,
                               const Matrix& m, const Matrix& transpose) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({rows, tensor_or_none(fresh), m.indptr, m.indices, m.values,
                            transpose.indptr, transpose.indices, transpose.values});
    const Tensor result = sums.clone();
    return {result, add(result, rows, m, tensor_or_none(fresh), x)};
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor rows = saved[0].to(at::kLong), fresh = saved[1];
    Tensor into_sums = gradients[0].index_add(0, rows, gradients[1]);
    const Tensor into_rows = into_sums.index_select(0, rows);
    if (fresh.defined()) into_sums = into_sums.index_copy(0, rows, into_rows.masked_fill(fresh.to(at::kBool).unsqueeze(1), 0));
    const Tensor into_x = ctx->needs_input_grad(1) ? backwards(saved, 2, into_rows) : Tensor();
    return {into_sums, into_x, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// Operators on the arrays of a CSR or a Delta, which Python has checked.

Matrix matrix(const Tensor& indptr, const Tensor& indices, const Maybe& values, int64_t longest, const Maybe& cuts) {
  return {indptr, indices, tensor_or_none(values), longest, tensor_or_none(cuts)};
}

Tensor aggregate(const Tensor& indptr, const Tensor& indices, const Maybe& values, int64_t columns, int64_t longest, const Maybe& cuts,
                 const Tensor& x, at::TensorList) {
  const Matrix m = matrix(indptr, indices, values, longest, cuts);
  fits("aggregate", m, columns, x);
  return sum(m, x);
}

Tensor graded_aggregate(const Tensor& indptr, const Tensor& indices, const Maybe& values, int64_t columns, int64_t longest,
                        const Maybe& cuts, const Tensor& x, at::TensorList transpose) {
  const Matrix m = matrix(indptr, indices, values, longest, cuts);
  fits("aggregate", m, columns, x);
  return graded(m, x, matrix_of(transpose));
}

using Pair = std::tuple<Tensor, Tensor>;

Tensor increment_(const Tensor& sums, const Tensor& rows, const Tensor& indptr, const Tensor& indices, const Maybe& values,
                  const Maybe& fresh, int64_t columns, int64_t longest, const Maybe& cuts, const Tensor& x) {
  const Matrix m = matrix(indptr, indices, values, longest, cuts);
  fits("increment_", m, columns, x);
  return add(sums, rows, m, tensor_or_none(fresh), x);
}

Pair increment(const Tensor& sums, int64_t num_rows, const Tensor& rows, const Tensor& indptr, const Tensor& indices, const Maybe& values,
               const Maybe& fresh, int64_t columns, int64_t longest, const Maybe& cuts, const Tensor& x, at::TensorList) {
  fits_sums(sums, num_rows, x);
  const Tensor result = sums.clone();
  return {result, increment_(result, rows, indptr, indices, values, fresh, columns, longest, cuts, x)};
}

Pair graded_increment(const Tensor& sums, int64_t num_rows, const Tensor& rows, const Tensor& indptr, const Tensor& indices,
                      const Maybe& values, const Maybe& fresh, int64_t columns, int64_t longest, const Maybe& cuts, const Tensor& x,
                      at::TensorList transpose) {
  const Matrix m = matrix(indptr, indices, values, longest, cuts);
  fits("increment", m, columns, x);
  fits_sums(sums, num_rows, x);
  const variable_list result = Increment::apply(sums, x, rows, fresh, m, matrix_of(transpose));
  return {result[0], result[1]};
}

}  // namespace cpp_operators::sparse

#define CS_MATRIX "Tensor indptr, Tensor indices, Tensor? values, "
#define CS_LOOKED "int columns, int longest, Tensor? cuts, Tensor x"
TORCH_LIBRARY_FRAGMENT(chronoscale, m) {
  m.def("_aggregate(" CS_MATRIX CS_LOOKED ", Tensor[] transpose) -> Tensor");
  m.def("_increment_(Tensor(a!) sums, Tensor rows, " CS_MATRIX "Tensor? fresh, " CS_LOOKED ") -> Tensor");
  m.def("_increment(Tensor sums, int num_rows, Tensor rows, " CS_MATRIX "Tensor? fresh, " CS_LOOKED
        ", Tensor[] transpose) -> (Tensor, Tensor)");
}
#define CS_SERVE(device)                                      \
  TORCH_LIBRARY_IMPL(chronoscale, device, m) {                \
    m.impl("_aggregate", cpp_operators::sparse::aggregate);   \
    m.impl("_increment_", cpp_operators::sparse::increment_); \
    m.impl("_increment", cpp_operators::sparse::increment);   \
  }
CS_SERVE(CPU)
CS_SERVE(CUDA)
#undef CS_SERVE
TORCH_LIBRARY_IMPL(chronoscale, Autograd, m) {
  m.impl("_aggregate", cpp_operators::sparse::graded_aggregate);
  m.impl("_increment", cpp_operators::sparse::graded_increment);
}
#undef CS_MATRIX
#undef CS_LOOKED
