"""Graph attention of one head, in full and as an increment (REAL, section 4.1, eq. 5-8, kept stable).

state = attention(graph, z, left, right)                                  a snapshot's
state, touched = attention_increment(state, graph, change, z, left, right)   the next one's, from the change alone
out = state.output()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.backend import select
from chronoscale.cuda_ext.graph import CSR, EdgeMap
from chronoscale.cuda_ext.ops import VARIANTS
from chronoscale.errors import UserError, unknown

CANCELLED = 1 / 8  # of the largest denominator since a row was computed afresh: below, rounding has grown eightfold


@dataclass(frozen=True, eq=False)
class Attention:
    """Softmax aggregation that can go on. With scores e_ij = leaky_relu(left_i + right_j):

    total [num_rows, F] = sum over i of exp(e_ij - maximum_j) z_i and denominator [num_rows], the same sum without z, are differentiable;
    maximum [num_rows], the largest score that the row has had since it was computed afresh, and reference [num_rows], its largest
    denominator since then, on the scale of `maximum`, are not.
    """

    total: Tensor
    denominator: Tensor
    maximum: Tensor
    reference: Tensor

    def output(self) -> Tensor:
        """[num_rows, F]: sum over i of softmax_i(e_ij) z_i (REAL, eq. 6); NaN for a row without entries."""
        return self.total / self.denominator[:, None]


class _Sum(NamedTuple):
    """A signed sum to carry out: compact rows of entries, their weights, and what is kept of the old rows."""

    rows: Tensor | None  # int32 [R]; None: all, in order
    matrix: CSR  # [R, num_cols]
    weights: Tensor  # [nnz], signed
    denominator: Tensor  # [R], their sums
    kept: Tensor | None  # [R]: factor of the old row; None: there is none
    fresh: Tensor | None  # bool [R]: the old row is not read


def attention(graph: CSR, z: Tensor, left: Tensor, right: Tensor, slope: float = 0.2, backend: str | None = None) -> Attention:
    """Attention over a snapshot; rows hold in-edges and the self-loop, the graph's values are not read.

    z [num_cols, F], left [num_cols], right [num_rows], float32 or float64 alike, contiguous, on the graph's device. Differentiable in
    all three. Raises UserError when they do not fit or the backend cannot be had, MachineError when a kernel fails.
    """
    _check(graph, z, left, right)
    with torch.no_grad():
        matrix = (graph.indptr, graph.indices, None)
        weights, maximum, denominator, _ = select(z.device, backend).softmax(None, matrix, None, True, (left, right), slope)
    made = _Sum(None, graph, weights, denominator, None, None)
    total, sums, _, _ = _Signed.apply(None, None, z, left, right, made, slope, backend, False)  # type: ignore[no-untyped-call]
    return Attention(total, sums, maximum, sums.detach().clone())


def attention_increment(
    state: Attention,
    graph: CSR,
    change: EdgeMap,
    z: Tensor,
    left: Tensor,
    right: Tensor,
    slope: float = 0.2,
    variant: str = "exact",
    backend: str | None = None,
) -> tuple[Attention, Tensor]:
    """The state after `change`, which leads to `graph`, and the outputs [R, F] of the rows it touches, as in change.rows.

    z, left and right as they were for `state`, which stays valid. exact: the maximum runs along, and a row is computed afresh from `graph`
    when a removed edge held its maximum or when its denominator falls below CANCELLED of its reference. as-published: eq. 7-8, maximum
    0, nothing computed afresh. Differentiable in the state, z, left and right. Raises as `attention` does.
    """
    return _advance(state, graph, change, z, left, right, slope, variant, backend, False)


def attention_increment_(
    state: Attention,
    graph: CSR,
    change: EdgeMap,
    z: Tensor,
    left: Tensor,
    right: Tensor,
    slope: float = 0.2,
    variant: str = "exact",
    backend: str | None = None,
) -> Tensor:
    """`attention_increment` into the state's own tensors, without gradients; returns the touched rows' outputs."""
    with torch.no_grad():
        return _advance(state, graph, change, z, left, right, slope, variant, backend, True)[1]


def _advance(
    state: Attention,
    graph: CSR,
    change: EdgeMap,
    z: Tensor,
    left: Tensor,
    right: Tensor,
    slope: float,
    variant: str,
    backend: str | None,
    in_place: bool,
) -> tuple[Attention, Tensor]:
    _check(graph, z, left, right)
    if variant not in VARIANTS:
        raise unknown("variant", variant, VARIANTS)
    if change.num_nodes != graph.num_rows or change.device != graph.device or state.total.shape != (graph.num_rows, z.shape[1]):
        raise UserError(
            f"attention_increment: a graph of {graph.num_rows} rows on {graph.device}, a change of {change.num_nodes} nodes on "
            f"{change.device}, a state {list(state.total.shape)} and z {list(z.shape)} do not fit"
        )
    with torch.no_grad():
        rows = change.rows.long()
        work, maximum, reference = _plan(state, rows, graph, change, (left, right), slope, variant, backend)
        into = (state.maximum, state.reference) if in_place else (state.maximum.clone(), state.reference.clone())
        into[0][rows], into[1][rows] = maximum, reference
    arguments = (state.total, state.denominator, z, left, right, work, slope, backend, in_place)
    total, denominator, touched, below = _Signed.apply(*arguments)  # type: ignore[no-untyped-call]
    return Attention(total, denominator, *into), touched / below[:, None]


def _plan(
    state: Attention,
    rows: Tensor,
    graph: CSR,
    change: EdgeMap,
    ends: tuple[Tensor, Tensor],
    slope: float,
    variant: str,
    backend: str | None,
) -> tuple[_Sum, Tensor, Tensor]:
    """The sum that leads to the new rows, their maximum and their reference."""
    softmax, exact = select(graph.device, backend).softmax, variant == "exact"
    before, old = state.maximum[rows], state.denominator.detach()[rows]
    matrix = CSR(change.indptr, change.indices, None, graph.num_cols)
    signed = (change.indptr, change.indices, change.sign)
    weights, maximum, denominator, held = softmax(change.rows, signed, before if exact else torch.zeros_like(before), exact, ends, slope)
    kept = torch.exp(before - maximum)
    now = old * kept + denominator
    reference = torch.maximum(state.reference[rows] * kept, now)
    if not exact:
        return _Sum(change.rows, matrix, weights, denominator, kept, None), maximum, reference
    fresh = (held > 0) | ~(now >= CANCELLED * reference)
    if not bool(fresh.any()):
        return _Sum(change.rows, matrix, weights, denominator, kept, None), maximum, reference
    matrix, sign = _with_fresh(graph, change, rows, fresh)
    base = before.masked_fill(fresh, -torch.inf)
    weights, maximum, denominator, _ = softmax(change.rows, (matrix.indptr, matrix.indices, sign), base, True, ends, slope)
    kept = torch.exp(before - maximum).masked_fill_(fresh, 0)
    reference = torch.where(fresh, denominator, reference)
    return _Sum(change.rows, matrix, weights, denominator, kept, fresh), maximum, reference


def _with_fresh(graph: CSR, change: EdgeMap, rows: Tensor, fresh: Tensor) -> tuple[CSR, Tensor]:
    """The change's compact rows, the fresh ones replaced by the graph's: [R, num_cols], and its signs."""
    begin = torch.where(fresh, graph.indptr[rows] + change.nnz, change.indptr[:-1])  # in change's entries, then graph's
    length = torch.where(fresh, graph.indptr[rows + 1] - graph.indptr[rows], change.indptr.diff())
    indptr = torch.zeros_like(change.indptr)
    torch.cumsum(length, 0, out=indptr[1:])
    entry = torch.arange(int(indptr[-1]), device=graph.device) + torch.repeat_interleave(begin - indptr[:-1], length)
    own = entry < change.nnz
    old, new = entry.clamp(max=change.nnz - 1), entry.sub_(change.nnz).clamp_(min=0)
    sign = change.sign[old].masked_fill_(~own, 1)
    return CSR(indptr, torch.where(own, change.indices[old], graph.indices[new]), None, graph.num_cols), sign


class _Signed(torch.autograd.Function):
    """(total, denominator) after a signed sum, and their touched rows. The maximum is a constant: it cancels in the output."""

    @staticmethod
    def forward(
        ctx: Any,
        total: Tensor | None,
        denominator: Tensor | None,
        z: Tensor,
        left: Tensor,
        right: Tensor,
        made: _Sum,
        slope: float,
        backend: str | None,
        in_place: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.made, ctx.slope, ctx.backend = made, slope, backend
        ctx.save_for_backward(z, left, right)
        matrix = made.matrix
        sums = cast(Tensor, select(z.device, backend).aggregate(matrix.indptr, matrix.indices, made.weights, z))
        if total is None or denominator is None or made.rows is None or made.kept is None:
            return sums, made.denominator, sums.new_empty(0), sums.new_empty(0)
        rows = made.rows.long()
        before, below = total[rows], denominator[rows]
        if made.fresh is not None:
            before.masked_fill_(made.fresh[:, None], 0)
            below.masked_fill_(made.fresh, 0)
        sums.addcmul_(before, made.kept[:, None])
        sums_below = below.mul_(made.kept).add_(made.denominator)
        new, new_below = (total, denominator) if in_place else (total.clone(), denominator.clone())
        return new.index_copy_(0, rows, sums), new_below.index_copy_(0, rows, sums_below), sums, sums_below

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        made, (z, left, right) = ctx.made, ctx.saved_tensors
        into_total, into_denominator, touched, below = grads
        before: tuple[Tensor | None, Tensor | None] = (None, None)
        into = (into_total.contiguous(), into_denominator.contiguous())
        if made.rows is not None:
            rows = made.rows.long()
            into = into_total[rows] + touched, into_denominator[rows] + below
            before = (
                into_total.index_copy(0, rows, into[0] * made.kept[:, None]),
                into_denominator.index_copy(0, rows, into[1] * made.kept),
            )
        kernels, matrix = select(z.device, ctx.backend), made.matrix
        edges, row = kernels.softmax_grad(made.rows, (matrix.indptr, matrix.indices), (left, right), ctx.slope, made.weights, z, into)
        into_z = None
        if ctx.needs_input_grad[2]:
            turned = matrix.transpose()
            into_z = kernels.aggregate(turned.indptr, turned.indices, made.weights[matrix.order()], into[0])
        into_left = torch.zeros_like(left).index_add_(0, matrix.indices.long(), edges)
        into_right = row if made.rows is None else torch.zeros_like(right).index_copy_(0, made.rows.long(), row)
        return *before, into_z, into_left, into_right, None, None, None, None


def _check(graph: CSR, z: Tensor, left: Tensor, right: Tensor) -> None:
    wanted = (
        ("z", z, (graph.num_cols, z.shape[-1] if z.dim() == 2 else -1)),
        ("left", left, (graph.num_cols,)),
        ("right", right, (graph.num_rows,)),
    )
    for name, tensor, shape in wanted:
        fits = tensor.dtype in (torch.float32, torch.float64) and tensor.dtype == z.dtype and tuple(tensor.shape) == shape
        if not fits or not tensor.is_contiguous() or tensor.device != graph.device:
            found = f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}{'' if tensor.is_contiguous() else ', not contiguous'}"
            expected = f"[{graph.num_cols}, F]" if name == "z" else f"[{shape[0]}]"
            raise UserError(f"{name} is {found}; expected contiguous float32 or float64 (as z) {expected} on {graph.device}")
