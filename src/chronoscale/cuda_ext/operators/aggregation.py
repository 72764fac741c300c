"""Aggregation and its increment as differentiable torch operators.

    out = aggregate(graph, x)                          a snapshot's neighbour sums
    sums, touched = increment(sums, delta, x)          the next snapshot's, from the change alone
    touched = increment_(sums, delta, x)               the same in place, without gradients
    graph, scale = rebuild(graph, change)              the next snapshot's adjacency

The same kernels are registered as torch.ops.chronoscale.{aggregate, increment, increment_} on plain tensors.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import BackendName, select_kernels
from chronoscale.cuda_ext.native.cpp_operators import REFUSALS, cpp_serves, load_operators, raise_unless_refused
from chronoscale.cuda_ext.operators.graph import CSR, Delta, EdgeMap
from chronoscale.cuda_ext.operators.sparse_arrays import column_counts, describe, extent, is_plain, require_apart, transpose
from chronoscale.cuda_ext.reference.aggregation import sum_dtype
from chronoscale.errors import UserError, unknown

VARIANTS = ("exact", "as-published")
Operand = TypeVar("Operand", CSR, Delta)


def aggregate(graph: CSR, x: Tensor, backend: BackendName = None) -> Tensor:
    """Sum the in-neighbours of each node by a kernel: out[v] = sum over in-edges e of v of values[e] * x[indices[e]] (REAL, section 4.1).

    x is float32, float64 or bfloat16 [graph.num_cols, F], contiguous, on the graph's device; the result is [graph.num_rows, F] of x's
    dtype, float32 for bfloat16 (bfloat16 is only a format to store: products and sums are float32), differentiable in x. `backend` names
    'reference', 'cpu' or 'cuda'; by default x's device decides. The graph is checked, once (`CSR.check`).

    Raises UserError when x does not fit or the backend cannot be had, MachineError when the kernel fails.
    """
    graph.check()
    if cpp_serves(x, backend):
        transposed = _tensors(graph.transpose()) if x.requires_grad and torch.is_grad_enabled() else []
        try:
            sums = load_operators().aggregate(graph.indptr, graph.indices, graph.values, graph.num_cols, *graph.row_layout, x, transposed)
            return cast(Tensor, sums)
        except REFUSALS as error:
            raise_unless_refused(error)
    _check("x", x, graph.num_cols, graph.device)
    return cast(Tensor, _Aggregate.apply(x, graph, backend))  # type: ignore[no-untyped-call]


def increment(sums: Tensor, delta: Delta, x: Tensor, backend: BackendName = None) -> tuple[Tensor, Tensor]:
    """Bring the neighbour sums of one snapshot to the next by a kernel, from the changed edges alone (REAL, eq. 3).

    Returns the new sums [num_rows, F] and those of the touched rows, new_sums[delta.rows] [R, F]. On the unnormalised sum, where eq. 3 is
    exact: normalisation is the caller's. A fresh row's old sum is not read, and has no gradient. sums is [delta.num_rows, F], of the dtype
    that `aggregate` gives, and left as it was; x [delta.num_cols, F] as in `aggregate`. Differentiable in sums and x. Raises as `aggregate`
    does.
    """
    delta.check()
    if cpp_serves(x, backend):
        transposed = _tensors(delta.transpose()) if x.requires_grad and torch.is_grad_enabled() else []
        try:
            return cast(tuple[Tensor, Tensor], load_operators().increment(sums, delta.num_rows, *_change(delta), x, transposed))
        except REFUSALS as error:
            raise_unless_refused(error)
    _check("x", x, delta.num_cols, delta.device)
    _check("sums", sums, delta.num_rows, delta.device, x)
    return cast(tuple[Tensor, Tensor], _Increment.apply(sums, x, delta, backend))  # type: ignore[no-untyped-call]


def increment_(sums: Tensor, delta: Delta, x: Tensor, backend: BackendName = None) -> Tensor:
    """Bring neighbour sums to the next snapshot in place, by a kernel; return a copy of the touched rows, [R, F].

    Operands as in `increment`. The copy is the next lane's to read while the next increment already writes `sums`, whose memory nothing
    else may share. There are no gradients: UserError is raised when sums or x asks for them under grad mode, otherwise errors are those of
    `aggregate`.
    """
    _check("x", x, delta.check().num_cols, delta.device)
    _check("sums", sums, delta.num_rows, delta.device, x)
    require_apart("sums", sums, (extent(x), *delta.extents))
    if torch.is_grad_enabled() and (sums.requires_grad or x.requires_grad):
        raise UserError("increment_ has no gradient; use increment, or call it under torch.no_grad()")
    if sums.is_inference() and not torch.is_inference_mode_enabled():
        raise UserError("increment_: sums were made in inference mode, and can be written in it alone")
    touched = None
    if cpp_serves(x, backend):
        try:
            touched = load_operators().increment_(sums, *_change(delta), x)
        except REFUSALS as error:
            raise_unless_refused(error)
    if touched is None:
        touched = select_kernels(x.device, backend).increment_(sums, delta, x)
    if not sums.is_inference():
        torch.autograd.graph.increment_version(sums)  # a kernel has written them, which torch does not see
    return cast(Tensor, touched)


def rebuild(
    before: CSR, change: EdgeMap, variant: str = "exact", weighted: bool = True, backend: BackendName = None, unfit: Tensor | None = None
) -> tuple[CSR, Tensor]:
    """Build the next snapshot's normalised adjacency (A + I) by a kernel, from that before and the changed edges (REAL, section 4.3).

    Returns it with its row scale, float32 [N]; bit for bit as built from the later edges. `before` is [N, N], the self-loop first in each
    row, then ascending sources (of a row where they do not ascend, the result is some of its ids, or an error); its values are not read.
    variant 'exact': values c[source], scale r, with c = 1/sqrt(out-degree + 1) and r = 1/sqrt(in-degree + 1); 'as-published': values
    c[source] * r[row], scale 1. Without `weighted` the values are None. Linear in N, edges and changes.

    Raises UserError when the two do not fit, for an unknown variant or backend, and for a change of other edges. To find the last, the host
    waits for a GPU, unless it is given unfit, int32 [1] on the device: then that becomes 1, the result is some matrix of ids in range, and
    nothing is raised.
    """
    if variant not in VARIANTS:
        raise unknown("variant", variant, VARIANTS)
    nodes = change.check().num_nodes
    if (before.num_rows, before.num_cols, before.device) != (nodes, nodes, change.device):
        shape = f"[{before.num_rows}, {before.num_cols}] on {before.device}"
        raise UserError(f"rebuild: the adjacency is {shape}, the change of {nodes} nodes on {change.device}")
    before.check()
    steps = change.sign.new_zeros(change.nnz + 1, dtype=torch.int64)
    torch.cumsum(change.sign, 0, out=steps[1:])
    lengths = before.indptr.diff().index_add_(0, change.rows.long(), steps[change.indptr].diff())  # in-degree + 1
    indptr = torch.zeros_like(before.indptr)
    if unfit is None:
        torch.cumsum(lengths, 0, out=indptr[1:])
    else:  # what will not be looked at before it is used must be a matrix, though the wrong one
        torch.cumsum(lengths.clamp_(min=1), 0, out=indptr[1:])
        indptr.clamp_(max=max(0, before.nnz + change.growth()))
    r = lengths.double().sqrt_().reciprocal_()
    factors = None
    if weighted:
        outgoing = column_counts(before.indices, nodes).index_add_(0, change.indices, change.sign.int())
        factors = outgoing.double().sqrt_().reciprocal_(), None if variant == "exact" else r
    indices, values = select_kernels(before.device, backend).rebuild(before, change, steps, factors, indptr, unfit)
    return CSR(indptr, indices, values, nodes).mark_checked(), r.float() if variant == "exact" else torch.ones_like(r, dtype=torch.float32)


def _tensors(matrix: CSR) -> list[Tensor]:
    """Return the matrix's tensors, in the form that operators in C++ take."""
    return [matrix.indptr, matrix.indices] if matrix.values is None else [matrix.indptr, matrix.indices, matrix.values]


def _change(delta: Delta) -> tuple[Any, ...]:
    """Return the change's tensors and sizes, in the form that operators in C++ take."""
    return delta.rows, delta.indptr, delta.indices, delta.values, delta.fresh, delta.num_cols, *delta.row_layout


class _Aggregate(torch.autograd.Function):
    """The neighbour sum as an autograd function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: CSR, backend: BackendName) -> Tensor:
        ctx.graph, ctx.backend = graph, backend
        return cast(Tensor, select_kernels(x.device, backend).aggregate(graph, graph.values, x))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return aggregate(ctx.graph.transpose(), grads[0].contiguous(), ctx.backend), None, None


class _Increment(torch.autograd.Function):
    """The increment of neighbour sums as an autograd function."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor, x: Tensor, delta: Delta, backend: BackendName) -> tuple[Tensor, Tensor]:
        ctx.delta, ctx.backend = delta, backend
        new = sums.clone()
        return new, select_kernels(x.device, backend).increment_(new, delta, x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        ctx.delta.check()
        into_sums, into_rows = _into_sums(ctx.delta.rows, ctx.delta.fresh, *grads)
        into_x = aggregate(ctx.delta.transpose(), into_rows, ctx.backend) if ctx.needs_input_grad[1] else None
        return into_sums, into_x, None, None


def _into_sums(rows: Tensor, fresh: Tensor | None, into_new: Tensor, into_touched: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of the old sums [num_rows, F] and of the new sums' touched rows [R, F]."""
    rows = rows.long()
    into_sums = into_new.index_add(0, rows, into_touched)
    into_rows = into_sums[rows]
    if fresh is not None:
        into_sums.index_copy_(0, rows, into_rows.masked_fill(fresh.bool()[:, None], 0))
    return into_sums, into_rows


def _check(name: str, tensor: Tensor, rows: int, device: torch.device, like: Tensor | None = None) -> None:
    """Raise UserError unless `tensor` is a plain matrix of so many rows; with `like`, of the dtype and width that sums of it have."""
    if like is None:
        fits = tensor.dtype in (torch.float32, torch.float64, torch.bfloat16) and tensor.dim() == 2 and tensor.shape[0] == rows
    else:
        fits = tensor.dtype == sum_dtype(like.dtype) and tensor.shape == (rows, like.shape[1])
    if fits and tensor.device == device and is_plain(tensor):
        return
    expected = f"float32 or float64 (or bfloat16, summed in float32) [{rows}, F]"
    if like is not None:
        expected = f"{sum_dtype(like.dtype)} [{rows}, {like.shape[1]}]"
    raise UserError(f"{name} is {describe(tensor)}; expected contiguous {expected} on {device}")


# torch.ops.chronoscale: the same operators on plain tensors, for torch.compile, export and callers without a CSR. Their ids are
# checked in every call, O(nnz), and a backward pass of theirs rebuilds the transpose; a CSR keeps both. While a CUDA graph is captured
# nothing can be read, and nothing is checked: call once before.
_library: Any = torch.library.Library("chronoscale", "DEF")
_MATRIX = "Tensor indptr, Tensor indices, Tensor? values"
_library.define(f"aggregate({_MATRIX}, Tensor x) -> Tensor")
_library.define(f"increment(Tensor sums, Tensor rows, {_MATRIX}, Tensor x, Tensor? fresh=None) -> (Tensor, Tensor)")
_library.define(f"increment_(Tensor(a!) sums, Tensor rows, {_MATRIX}, Tensor x, Tensor? fresh=None) -> Tensor")


def _entered(operand: Operand) -> Operand:
    """Check an operand of a plain-tensor operator, unless a CUDA graph is being captured, when nothing can be read."""
    captured = operand.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    return operand.mark_checked() if captured else operand.check()


def _op_aggregate(indptr: Tensor, indices: Tensor, values: Tensor | None, x: Tensor) -> Tensor:
    """Run the operator on plain tensors, without gradients, as torch.ops.chronoscale.aggregate."""
    _matrices(x)
    with torch.no_grad():
        return aggregate(_entered(CSR(indptr, indices, values, x.shape[0])), x)


def _op_increment_(
    sums: Tensor, rows: Tensor, indptr: Tensor, indices: Tensor, values: Tensor | None, x: Tensor, fresh: Tensor | None = None
) -> Tensor:
    """Run the operator on plain tensors, without gradients, as torch.ops.chronoscale.increment_."""
    _matrices(sums, x)
    with torch.no_grad():
        return increment_(sums, _entered(Delta(rows, indptr, indices, values, sums.shape[0], x.shape[0], fresh)), x)


def _op_increment(
    sums: Tensor, rows: Tensor, indptr: Tensor, indices: Tensor, values: Tensor | None, x: Tensor, fresh: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Run the operator on plain tensors, without gradients, as torch.ops.chronoscale.increment."""
    _matrices(sums, x)
    with torch.no_grad():
        return increment(sums, _entered(Delta(rows, indptr, indices, values, sums.shape[0], x.shape[0], fresh)), x)


def _save_aggregate(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
    """Save what the backward pass needs."""
    ctx.save_for_backward(*inputs[:3])  # torch refuses the backward pass where they have been written since
    ctx.num_cols = inputs[3].shape[0]


def _save_increment(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
    """Save what the backward pass needs."""
    ctx.save_for_backward(*inputs[1:5], inputs[6])
    ctx.num_cols = inputs[5].shape[0]


def _grad_aggregate(ctx: Any, grad: Tensor) -> tuple[None, None, None, Tensor]:
    """Return the gradients of the operator's arguments; None for those that have none."""
    indptr, indices, values = ctx.saved_tensors
    transposed = transpose(indptr, indices, values, ctx.num_cols)
    return None, None, None, torch.ops.chronoscale.aggregate(*transposed, grad.contiguous())


def _grad_increment(ctx: Any, grad_sums: Tensor, grad_touched: Tensor) -> tuple[Tensor, None, None, None, None, Tensor, None]:
    """Return the gradients of the operator's arguments; None for those that have none."""
    rows, indptr, indices, values, fresh = ctx.saved_tensors
    into_sums, into_rows = _into_sums(rows, fresh, grad_sums, grad_touched)
    transposed = transpose(indptr, indices, values, ctx.num_cols)
    return into_sums, None, None, None, None, torch.ops.chronoscale.aggregate(*transposed, into_rows), None


for _name, _function in (("aggregate", _op_aggregate), ("increment", _op_increment), ("increment_", _op_increment_)):
    _library.impl(_name, _function, "CPU")
    _library.impl(_name, _function, "CUDA")


def _fake_aggregate(indptr: Tensor, indices: Tensor, values: Tensor | None, x: Tensor) -> Tensor:
    """Return an empty result of the operator, for torch.compile and export."""
    _matrices(x)
    _together(indptr, indices, values, x)
    return x.new_empty(indptr.shape[0] - 1, x.shape[1], dtype=sum_dtype(x.dtype))


def _fake_increment_(sums: Tensor, rows: Tensor, *others: Tensor | None, fresh: Tensor | None = None) -> Tensor:
    """Return an empty result of the operator, for torch.compile and export."""
    _matrices(sums)
    _together(rows, sums, *others, fresh)
    return sums.new_empty(rows.shape[0], sums.shape[1])


def _fake_increment(sums: Tensor, *others: Tensor, fresh: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return an empty result of the operator, for torch.compile and export."""
    return torch.empty_like(sums), _fake_increment_(sums, *others, fresh=fresh)


def _together(vector: Tensor, *others: Tensor | None) -> None:
    """Check that all are on one device.

    What is not comes here, too, when a part of it is on meta, and would get memory that nobody wrote.
    """
    torch._check(vector.dim() == 1 and all(other is None or other.device == vector.device for other in others))


def _matrices(*tensors: Tensor) -> None:
    """Check that all are matrices."""
    for tensor in tensors:
        torch._check(tensor.dim() == 2, lambda tensor=tensor: f"expected a matrix, got {list(tensor.shape)}")


torch.library.register_fake("chronoscale::aggregate", _fake_aggregate)
torch.library.register_fake("chronoscale::increment_", _fake_increment_)
torch.library.register_fake("chronoscale::increment", _fake_increment)
torch.library.register_autograd("chronoscale::aggregate", _grad_aggregate, setup_context=_save_aggregate)
torch.library.register_autograd("chronoscale::increment", _grad_increment, setup_context=_save_increment)
