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
from chronoscale.cuda_ext.operators.graph import CSR, AttentionEntries, EdgeMap
from chronoscale.cuda_ext.operators.sparse_arrays import describe, extent, is_plain, require_apart
from chronoscale.errors import UserError, unknown

Values = tuple[Tensor, Tensor, Tensor]  # z, left, right
CANCELLED = 1 / 8  # of the largest denominator since a row was computed afresh: below, rounding has grown eightfold


@dataclass(frozen=True, eq=False)
class AttentionState:
    """Running state of the attention kernels over a snapshot's edges, from which they go on to the next snapshot.

    With scores e_ij = leaky_relu(left_i + right_j) and features z_i: total [num_rows, F] = sum over i of exp(e_ij - maximum_j) z_i and
    denominator [num_rows], the same sum without z, are differentiable; maximum [num_rows], the largest score that the row has had since it
    was computed afresh, and reference [num_rows], its largest denominator since then, on the scale of `maximum`, are not. slope:
    leaky_relu's below 0.
    """

    total: Tensor
    denominator: Tensor
    maximum: Tensor
    reference: Tensor
    slope: float = 0.2

    def output(self) -> Tensor:
        """Return the attention's result [num_rows, F], sum over i of softmax_i(e_ij) z_i (REAL, eq. 6); NaN for a row without entries."""
        return self.total / self.denominator[:, None]


class _SignedSum(NamedTuple):
    """A planned sum of signed entries: compact rows of entries, their weights, and the factors by which the old rows stay."""

    kernels: ModuleType  # which carry it out
    operands: tuple[CSR | EdgeMap, ...]  # whose ids the entries come from: checked again in the backward pass
    entries: AttentionEntries
    weights: Tensor  # [nnz], signed
    denominator: Tensor  # [R], their sums
    old_factor: Tensor | None  # [R], which multiplies the old row; None: there is none
    fresh: Tensor | None  # bool [R]: the old row is not read
    recomputed: RecomputedRows | None = None


class RecomputedRows(NamedTuple):
    """Rows that attention kernels compute afresh by a mask over the whole graph, as the host must not wait to learn how many they are."""

    entries: AttentionEntries  # of all rows
    row_mask: Tensor  # uint8 [num_rows]
    weights: Tensor  # [nnz], zeros but in those rows


def attention(graph: CSR, z: Tensor, left: Tensor, right: Tensor, slope: float = 0.2, backend: BackendName = None) -> AttentionState:
    """Attend over a snapshot's edges by a kernel (a GAT head's softmax aggregation); rows hold in-edges and the self-loop.

    z: projected features [num_cols, F]; left [num_cols], right [num_rows]: the source's and the target's part of the score; float32 or
    float64 alike, contiguous, on the graph's device. The graph's values are not read. slope: leaky_relu's below 0. Differentiable in z,
    left and right. Raises UserError when they do not fit or the backend cannot be had, MachineError when a kernel fails.
    """
    _check(graph, z, left, right)
    kernels, entries = select_kernels(z.device, backend), AttentionEntries(graph, None, float(slope))
    with torch.no_grad():
        weights, maximum, denominator, _ = kernels.softmax(entries, (left, right), None, None, True)
    planned = _SignedSum(kernels, (graph,), entries, weights, denominator, None, None)
    total, denominator, _, _ = _SignedAggregate.apply(None, None, z, left, right, planned, False)  # type: ignore[no-untyped-call]
    return AttentionState(total, denominator, maximum, denominator.detach().clone(), slope)


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
    """Bring attention to the next snapshot by a kernel, from the changed edges; return its state and the outputs [R, F] of touched rows.

    graph: the next snapshot; change: the edges that lead to it; outputs are ordered as change.rows. z, left and right as they were for
    `state`, which stays valid. Variant exact: the maximum runs along, and a row is computed afresh from `graph` when a removed edge had its
    maximum or when its denominator falls below CANCELLED of its reference. as-published: REAL, eq. 7-8, maximum 0, nothing computed afresh.
    Differentiable in the state, z, left and right. Raises as `attention` does.
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
    """Bring attention to the next snapshot in the state's own tensors, by a kernel, without gradients; return touched rows' outputs [R, F].

    Operands and errors are those of `attention_increment`.
    """
    with torch.no_grad():
        return _advance(state, graph, change, (z, left, right), variant, backend, True)[1]


def _advance(
    state: AttentionState, graph: CSR, change: EdgeMap, values: Values, variant: str, backend: BackendName, in_place: bool
) -> tuple[AttentionState, Tensor]:
    """Return the state after `change`, in its own tensors if `in_place`, and the outputs of the touched rows."""
    _check(graph, *values)
    if variant not in VARIANTS:
        raise unknown("variant", variant, VARIANTS)
    z, left, right = values
    per_row = (graph.num_rows,)
    state_tensors = (
        (state.total, (*per_row, z.shape[1])),
        (state.denominator, per_row),
        (state.maximum, per_row),
        (state.reference, per_row),
    )
    fits = all((t.dtype, tuple(t.shape), t.device, is_plain(t)) == (z.dtype, shape, graph.device, True) for t, shape in state_tensors)
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
        extents_read = [*map(extent, values), *graph.extents, *change.extents]
        for name in ("total", "denominator", "maximum", "reference"):
            require_apart(f"state.{name}", getattr(state, name), extents_read)
    with torch.no_grad():
        rows = change.rows.long()
        planned, maximum, reference = _plan(state, rows, graph, change, (left, right), variant, select_kernels(z.device, backend))
        stored = (state.maximum, state.reference) if in_place else (state.maximum.clone(), state.reference.clone())
        stored[0][rows], stored[1][rows] = maximum, reference
    results = _SignedAggregate.apply(state.total, state.denominator, *values, planned, in_place)  # type: ignore[no-untyped-call]
    total, denominator, touched, denominators = results
    return AttentionState(total, denominator, *stored, state.slope), touched / denominators[:, None]


def _plan(
    state: AttentionState, rows: Tensor, graph: CSR, change: EdgeMap, ends: tuple[Tensor, Tensor], variant: str, kernels: ModuleType
) -> tuple[_SignedSum, Tensor, Tensor]:
    """Plan the sum that leads to the new rows; return it with their maximum [R] and their reference [R]."""
    exact = variant == "exact"
    old_maximum, old_denominator = state.maximum[rows], state.denominator.detach()[rows]
    operands, entries = (graph, change), AttentionEntries(change.compact(), change.rows, state.slope)
    base = old_maximum if exact else torch.zeros_like(old_maximum)
    weights, maximum, denominator, removals = kernels.softmax(entries, ends, change.sign, base, exact)
    old_factor = torch.exp(old_maximum - maximum)
    new_denominator = old_denominator * old_factor + denominator
    reference = torch.maximum(state.reference[rows] * old_factor, new_denominator)
    fresh = (removals > 0) | ~(new_denominator >= CANCELLED * reference)
    if not exact or not len(rows):
        return _SignedSum(kernels, operands, entries, weights, denominator, old_factor, None), maximum, reference
    if kernels is abi and abi.on_cuda(new_denominator):
        recomputed, whole_rows = _recompute(graph, change, rows, fresh, ends, state.slope)
        maximum, denominator = (
            torch.where(fresh, over_all[rows], new) for over_all, new in zip(whole_rows, (maximum, denominator), strict=True)
        )
        weights = weights.masked_fill(fresh.repeat_interleave(change.indptr.diff(), output_size=change.nnz), 0)
        reference, old_factor = torch.where(fresh, denominator, reference), old_factor.masked_fill(fresh, 0)
        return _SignedSum(kernels, operands, entries, weights, denominator, old_factor, fresh, recomputed), maximum, reference
    if not bool(fresh.any()):
        return _SignedSum(kernels, operands, entries, weights, denominator, old_factor, None), maximum, reference
    matrix, sign = _with_fresh(graph, change, rows, fresh)
    entries = entries._replace(matrix=matrix)
    weights, maximum, denominator, _ = kernels.softmax(entries, ends, sign, old_maximum.masked_fill(fresh, -torch.inf), True)
    old_factor = torch.exp(old_maximum - maximum).masked_fill_(fresh, 0)
    reference = torch.where(fresh, denominator, reference)
    return _SignedSum(kernels, operands, entries, weights, denominator, old_factor, fresh), maximum, reference


def _recompute(
    graph: CSR, change: EdgeMap, rows: Tensor, fresh: Tensor, ends: tuple[Tensor, Tensor], slope: float
) -> tuple[RecomputedRows, tuple[Tensor, Tensor]]:
    """Compute the fresh rows' weights over the whole graph; return them with the maximum and denominator [num_rows]."""
    entries = AttentionEntries(graph, None, slope)
    row_mask = torch.zeros(graph.num_rows, dtype=torch.uint8, device=rows.device).index_copy_(0, rows, fresh.to(torch.uint8))
    weights, maximum, denominator, _ = abi.softmax(entries, ends, None, None, True, row_mask)
    return RecomputedRows(entries, row_mask, weights), (maximum, denominator)


def _with_fresh(graph: CSR, change: EdgeMap, rows: Tensor, fresh: Tensor) -> tuple[CSR, Tensor]:
    """Return the change's compact rows, the fresh ones replaced by the graph's: a matrix [R, num_cols], and its signs."""
    begin = torch.where(fresh, graph.indptr[rows] + change.nnz, change.indptr[:-1])  # in change's entries, then graph's
    length = torch.where(fresh, graph.indptr[rows + 1] - graph.indptr[rows], change.indptr.diff())
    indptr = torch.zeros_like(change.indptr)
    torch.cumsum(length, 0, out=indptr[1:])
    place = torch.arange(int(indptr[-1]), device=graph.device) + torch.repeat_interleave(begin - indptr[:-1], length)
    is_change = place < change.nnz
    in_change, in_graph = place.clamp(max=change.nnz - 1), place.sub_(change.nnz).clamp_(min=0)
    sign = change.sign[in_change].masked_fill_(~is_change, 1)
    indices = torch.where(is_change, change.indices[in_change], graph.indices[in_graph])
    return CSR(indptr, indices, None, graph.num_cols).mark_checked(), sign


class _SignedAggregate(torch.autograd.Function):
    """The signed sum as an autograd function: (total, denominator) after it, and their touched rows.

    The maximum is a constant: it cancels in the output.
    """

    @staticmethod
    def forward(
        ctx: Any,
        total: Tensor | None,
        denominator: Tensor | None,
        z: Tensor,
        left: Tensor,
        right: Tensor,
        planned: _SignedSum,
        in_place: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        # A node that holds its own output is a cycle: its memory would wait for Python's collector.
        ctx.planned = planned._replace(denominator=planned.denominator.new_empty(0))
        ctx.save_for_backward(z, left, right)
        matrix, touched = planned.entries.matrix, planned.entries.rows
        sums = cast(Tensor, planned.kernels.aggregate(matrix, planned.weights, z))
        if total is None or denominator is None or touched is None or planned.old_factor is None:
            return sums, planned.denominator, sums.new_empty(0), sums.new_empty(0)
        rows = touched.long()
        old_totals, old_denominators = total[rows], denominator[rows]
        if planned.fresh is not None:
            old_totals.masked_fill_(planned.fresh[:, None], 0)
            old_denominators.masked_fill_(planned.fresh, 0)
        sums.addcmul_(old_totals, planned.old_factor[:, None])
        denominators = old_denominators.mul_(planned.old_factor).add_(planned.denominator)
        new_total, new_denominator = (total, denominator) if in_place else (total.clone(), denominator.clone())
        new_total.index_copy_(0, rows, sums)
        if planned.recomputed is not None:
            abi.aggregate(planned.recomputed.entries.matrix, planned.recomputed.weights, z, planned.recomputed.row_mask, new_total)
            sums = new_total[rows]
        return new_total, new_denominator.index_copy_(0, rows, denominators), sums, denominators

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        planned, (z, left, right) = ctx.planned, ctx.saved_tensors
        for operand in planned.operands:
            operand.check()
        matrix, rows = planned.entries.matrix, None if planned.entries.rows is None else planned.entries.rows.long()
        into_total, into_denominator, into_touched, into_touched_denominator = grads
        into_state: tuple[Tensor | None, Tensor | None] = (None, None)
        into_sums = (into_total.contiguous(), into_denominator.contiguous())
        if rows is not None:
            into_sums = into_total[rows] + into_touched, into_denominator[rows] + into_touched_denominator
            into_state = (
                into_total.index_copy(0, rows, into_sums[0] * planned.old_factor[:, None]),
                into_denominator.index_copy(0, rows, into_sums[1] * planned.old_factor),
            )
        entry_grads, row = planned.kernels.softmax_grad(planned.entries, (left, right), planned.weights, z, into_sums)
        into_z = None
        if ctx.needs_input_grad[2]:
            into_z = planned.kernels.aggregate(matrix.transpose(), planned.weights[matrix.order()], into_sums[0])
        into_left = planned.kernels.column_sums(matrix, entry_grads)
        into_right = row if rows is None else torch.zeros_like(right).index_copy_(0, rows, row)
        if planned.recomputed is not None and planned.fresh is not None and rows is not None:
            all_entries, row_mask, weights = planned.recomputed
            # Zeros in the other rows: a weight of zero would not take away what is no number.
            total = torch.zeros_like(into_total).index_copy_(0, rows, into_sums[0].masked_fill(~planned.fresh[:, None], 0))
            sums = torch.zeros_like(into_denominator).index_copy_(0, rows, into_sums[1].masked_fill(~planned.fresh, 0))
            entry_grads, row = abi.softmax_grad(all_entries, (left, right), weights, z, (total, sums), row_mask)
            into_right = torch.where(row_mask > 0, row, into_right)
            into_left = into_left + abi.column_sums(all_entries.matrix, entry_grads)
            if into_z is not None:
                into_z = into_z + abi.aggregate(all_entries.matrix.transpose(), weights[all_entries.matrix.order()], total)
        return *into_state, into_z, into_left, into_right, None, None


def _check(graph: CSR, z: Tensor, left: Tensor, right: Tensor) -> None:
    """Raise UserError unless z, left and right fit the graph."""
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
