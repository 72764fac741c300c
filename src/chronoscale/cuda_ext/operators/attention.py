"""Graph attention of one head, in full and as an increment (REAL, section 4.1, eq. 5-8, kept stable).

state = attention(graph, z, left, right)                                  a snapshot's
state, touched = attention_increment(state, graph, change, z, left, right)   the next one's, from the change alone
out = state.output()
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.backend import BackendName, select_kernels
from chronoscale.cuda_ext.operators.aggregation import VARIANTS
from chronoscale.cuda_ext.operators.graph import CSR, AttentionEntries, EdgeMap, describe, extent, is_plain, require_apart
from chronoscale.errors import UserError, unknown

Values = tuple[Tensor, Tensor, Tensor]  # z, left, right
CANCELLED = 1 / 8  # of the largest denominator since a row was computed afresh: below, rounding has grown eightfold


@dataclass(frozen=True, eq=False)
class AttentionState:
    """Softmax aggregation that can go on. With scores e_ij = leaky_relu(left_i + right_j):

    total [num_rows, F] = sum over i of exp(e_ij - maximum_j) z_i and denominator [num_rows], the same sum without z, are differentiable;
    maximum [num_rows], the largest score that the row has had since it was computed afresh, and reference [num_rows], its largest
    denominator since then, on the scale of `maximum`, are not. slope: leaky_relu's below 0.
    """

    total: Tensor
    denominator: Tensor
    maximum: Tensor
    reference: Tensor
    slope: float = 0.2

    def output(self) -> Tensor:
        """[num_rows, F]: sum over i of softmax_i(e_ij) z_i (REAL, eq. 6); NaN for a row without entries."""
        return self.total / self.denominator[:, None]


class _SignedSum(NamedTuple):
    """A signed sum to carry out: compact rows of entries, their weights, and what is kept of the old rows."""

    kernels: ModuleType  # which carry it out
    given: tuple[CSR | EdgeMap, ...]  # whose ids they come from: looked at again in the backward pass
    at: AttentionEntries
    weights: Tensor  # [nnz], signed
    denominator: Tensor  # [R], their sums
    kept: Tensor | None  # [R]: factor of the old row; None: there is none
    fresh: Tensor | None  # bool [R]: the old row is not read
    afresh: RecomputedRows | None = None


class RecomputedRows(NamedTuple):
    """Rows that are computed afresh where the host must not wait to learn how many they are: by a mask over the whole graph."""

    at: AttentionEntries  # of all rows
    only: Tensor  # uint8 [num_rows]
    weights: Tensor  # [nnz], zeros but in those rows


def attention(graph: CSR, z: Tensor, left: Tensor, right: Tensor, slope: float = 0.2, backend: BackendName = None) -> AttentionState:
    """Attention over a snapshot; rows hold in-edges and the self-loop, the graph's values are not read.

    z [num_cols, F], left [num_cols], right [num_rows], float32 or float64 alike, contiguous, on the graph's device. Differentiable in
    all three. Raises UserError when they do not fit or the backend cannot be had, MachineError when a kernel fails.
    """
    _check(graph, z, left, right)
    kernels, at = select_kernels(z.device, backend), AttentionEntries(graph, None, float(slope))
    with torch.no_grad():
        weights, maximum, denominator, _ = kernels.softmax(at, (left, right), None, None, True)
    made = _SignedSum(kernels, (graph,), at, weights, denominator, None, None)
    total, sums, _, _ = _SignedAggregate.apply(None, None, z, left, right, made, False)  # type: ignore[no-untyped-call]
    return AttentionState(total, sums, maximum, sums.detach().clone(), slope)


def attention_increment(
    state: AttentionState,
    graph: CSR,
    change: EdgeMap,
    z: Tensor,
    left: Tensor,
    right: Tensor,
    variant: str = "exact",
    backend: BackendName = None,
) -> tuple[AttentionState, Tensor]:
    """The state after `change`, which leads to `graph`, and the outputs [R, F] of the rows it touches, as in change.rows.

    z, left and right as they were for `state`, which stays valid. exact: the maximum runs along, and a row is computed afresh from `graph`
    when a removed edge held its maximum or when its denominator falls below CANCELLED of its reference. as-published: eq. 7-8, maximum
    0, nothing computed afresh. Differentiable in the state, z, left and right. Raises as `attention` does.
    """
    return _advance(state, graph, change, (z, left, right), variant, backend, False)


def attention_increment_(
    state: AttentionState,
    graph: CSR,
    change: EdgeMap,
    z: Tensor,
    left: Tensor,
    right: Tensor,
    variant: str = "exact",
    backend: BackendName = None,
) -> Tensor:
    """`attention_increment` into the state's own tensors, without gradients; returns the touched rows' outputs."""
    with torch.no_grad():
        return _advance(state, graph, change, (z, left, right), variant, backend, True)[1]


def _advance(
    state: AttentionState, graph: CSR, change: EdgeMap, values: Values, variant: str, backend: BackendName, in_place: bool
) -> tuple[AttentionState, Tensor]:
    _check(graph, *values)
    if variant not in VARIANTS:
        raise unknown("variant", variant, VARIANTS)
    z, left, right = values
    each = (graph.num_rows,)
    kept = ((state.total, (*each, z.shape[1])), (state.denominator, each), (state.maximum, each), (state.reference, each))
    fits = all((t.dtype, tuple(t.shape), t.device, is_plain(t)) == (z.dtype, shape, graph.device, True) for t, shape in kept)
    if (
        not fits
        or (graph.nnz == 0 and change.nnz > 0)
        or not change.num_nodes == graph.num_rows == graph.num_cols
        or change.device != graph.device
    ):
        raise UserError(
            f"attention_increment: a graph of {graph.num_rows} rows and {graph.num_cols} columns on {graph.device}, a change of "
            f"{change.num_nodes} nodes on {change.device}, a state {list(state.total.shape)} and z {z.dtype} {list(z.shape)} do not fit"
        )
    change.check()
    if in_place:
        read = [*map(extent, values), *graph.extents, *change.extents]
        for name in ("total", "denominator", "maximum", "reference"):
            require_apart(f"state.{name}", getattr(state, name), read)
    with torch.no_grad():
        rows = change.rows.long()
        made, maximum, reference = _plan(state, rows, graph, change, (left, right), variant, select_kernels(z.device, backend))
        into = (state.maximum, state.reference) if in_place else (state.maximum.clone(), state.reference.clone())
        into[0][rows], into[1][rows] = maximum, reference
    results = _SignedAggregate.apply(state.total, state.denominator, *values, made, in_place)  # type: ignore[no-untyped-call]
    total, denominator, touched, below = results
    return AttentionState(total, denominator, *into, state.slope), touched / below[:, None]


def _plan(
    state: AttentionState, rows: Tensor, graph: CSR, change: EdgeMap, ends: tuple[Tensor, Tensor], variant: str, kernels: ModuleType
) -> tuple[_SignedSum, Tensor, Tensor]:
    """The sum that leads to the new rows, their maximum and their reference."""
    exact = variant == "exact"
    before, old = state.maximum[rows], state.denominator.detach()[rows]
    given, at = (graph, change), AttentionEntries(change.compact(), change.rows, state.slope)
    base = before if exact else torch.zeros_like(before)
    weights, maximum, denominator, held = kernels.softmax(at, ends, change.sign, base, exact)
    kept = torch.exp(before - maximum)
    now = old * kept + denominator
    reference = torch.maximum(state.reference[rows] * kept, now)
    fresh = (held > 0) | ~(now >= CANCELLED * reference)
    if not exact or not len(rows):
        return _SignedSum(kernels, given, at, weights, denominator, kept, None), maximum, reference
    if kernels is abi and abi.on_cuda(now):
        afresh, whole = _afresh(graph, change, rows, fresh, ends, state.slope)
        maximum, denominator = (torch.where(fresh, of[rows], new) for of, new in zip(whole, (maximum, denominator), strict=True))
        weights = weights.masked_fill(fresh.repeat_interleave(change.indptr.diff(), output_size=change.nnz), 0)
        reference, kept = torch.where(fresh, denominator, reference), kept.masked_fill(fresh, 0)
        return _SignedSum(kernels, given, at, weights, denominator, kept, fresh, afresh), maximum, reference
    if not bool(fresh.any()):
        return _SignedSum(kernels, given, at, weights, denominator, kept, None), maximum, reference
    matrix, sign = _with_fresh(graph, change, rows, fresh)
    at = at._replace(matrix=matrix)
    weights, maximum, denominator, _ = kernels.softmax(at, ends, sign, before.masked_fill(fresh, -torch.inf), True)
    kept = torch.exp(before - maximum).masked_fill_(fresh, 0)
    reference = torch.where(fresh, denominator, reference)
    return _SignedSum(kernels, given, at, weights, denominator, kept, fresh), maximum, reference


def _afresh(
    graph: CSR, change: EdgeMap, rows: Tensor, fresh: Tensor, ends: tuple[Tensor, Tensor], slope: float
) -> tuple[RecomputedRows, tuple[Tensor, Tensor]]:
    """The fresh rows' part of a sum, and their maximum and denominator [num_rows]."""
    at = AttentionEntries(graph, None, slope)
    only = torch.zeros(graph.num_rows, dtype=torch.uint8, device=rows.device).index_copy_(0, rows, fresh.to(torch.uint8))
    weights, maximum, denominator, _ = abi.softmax(at, ends, None, None, True, only)
    return RecomputedRows(at, only, weights), (maximum, denominator)


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
    return CSR(indptr, torch.where(own, change.indices[old], graph.indices[new]), None, graph.num_cols).mark_checked(), sign


class _SignedAggregate(torch.autograd.Function):
    """(total, denominator) after a signed sum, and their touched rows. The maximum is a constant: it cancels in the output."""

    @staticmethod
    def forward(
        ctx: Any, total: Tensor | None, denominator: Tensor | None, z: Tensor, left: Tensor, right: Tensor, made: _SignedSum, in_place: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.made = made
        ctx.save_for_backward(z, left, right)
        matrix, touched = made.at.matrix, made.at.rows
        sums = cast(Tensor, made.kernels.aggregate(matrix, made.weights, z))
        if total is None or denominator is None or touched is None or made.kept is None:
            return sums, made.denominator, sums.new_empty(0), sums.new_empty(0)
        rows = touched.long()
        before, below = total[rows], denominator[rows]
        if made.fresh is not None:
            before.masked_fill_(made.fresh[:, None], 0)
            below.masked_fill_(made.fresh, 0)
        sums.addcmul_(before, made.kept[:, None])
        sums_below = below.mul_(made.kept).add_(made.denominator)
        new, new_below = (total, denominator) if in_place else (total.clone(), denominator.clone())
        new.index_copy_(0, rows, sums)
        if made.afresh is not None:
            abi.aggregate(made.afresh.at.matrix, made.afresh.weights, z, made.afresh.only, new)
            sums = new[rows]
        return new, new_below.index_copy_(0, rows, sums_below), sums, sums_below

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        made, (z, left, right) = ctx.made, ctx.saved_tensors
        for operand in made.given:
            operand.check()
        matrix, rows = made.at.matrix, None if made.at.rows is None else made.at.rows.long()
        into_total, into_denominator, touched, below = grads
        before: tuple[Tensor | None, Tensor | None] = (None, None)
        into = (into_total.contiguous(), into_denominator.contiguous())
        if rows is not None:
            into = into_total[rows] + touched, into_denominator[rows] + below
            before = (
                into_total.index_copy(0, rows, into[0] * made.kept[:, None]),
                into_denominator.index_copy(0, rows, into[1] * made.kept),
            )
        edges, row = made.kernels.softmax_grad(made.at, (left, right), made.weights, z, into)
        into_z = None
        if ctx.needs_input_grad[2]:
            into_z = made.kernels.aggregate(matrix.transpose(), made.weights[matrix.order()], into[0])
        into_left = made.kernels.column_sums(matrix, edges)
        into_right = row if rows is None else torch.zeros_like(right).index_copy_(0, rows, row)
        if made.afresh is not None and made.fresh is not None and rows is not None:
            whole, only, weights = made.afresh
            # Zeros in the other rows: a weight of zero would not take away what is no number.
            total = torch.zeros_like(into_total).index_copy_(0, rows, into[0].masked_fill(~made.fresh[:, None], 0))
            sums = torch.zeros_like(into_denominator).index_copy_(0, rows, into[1].masked_fill(~made.fresh, 0))
            edges, row = abi.softmax_grad(whole, (left, right), weights, z, (total, sums), only)
            into_right = torch.where(only > 0, row, into_right)
            into_left = into_left + abi.column_sums(whole.matrix, edges)
            if into_z is not None:
                into_z = into_z + abi.aggregate(whole.matrix.transpose(), weights[whole.matrix.order()], total)
        return *before, into_z, into_left, into_right, None, None


def _check(graph: CSR, z: Tensor, left: Tensor, right: Tensor) -> None:
    graph.check()
    wanted = (
        ("z", z, (graph.num_cols, z.shape[-1] if z.dim() == 2 else -1)),
        ("left", left, (graph.num_cols,)),
        ("right", right, (graph.num_rows,)),
    )
    for name, tensor, shape in wanted:
        fits = tensor.dtype in (torch.float32, torch.float64) and tensor.dtype == z.dtype and tuple(tensor.shape) == shape
        if not fits or not is_plain(tensor) or tensor.device != graph.device:
            expected = f"[{graph.num_cols}, F]" if name == "z" else f"[{shape[0]}]"
            raise UserError(f"{name} is {describe(tensor)}; expected contiguous float32 or float64 (as z) {expected} on {graph.device}")
