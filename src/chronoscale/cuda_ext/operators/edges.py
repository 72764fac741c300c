"""Sums over edges, each of which is as much work as any other (FAST, section 4.3, "Balanced Aggregate").

out = aggregate_edges(x, target, rows)             x has a row an edge
out = aggregate_edges(x, target, rows, source)     x has a row a node, read where an edge begins
"""

from __future__ import annotations

from operator import index
from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import BackendName
from chronoscale.cuda_ext.native.cpp_operators import REFUSALS, cpp_serves, load_operators, raise_unless_refused
from chronoscale.cuda_ext.operators.edge_kernels import INT32_LIMIT, check_ids, check_matrix, select_edge_kernels
from chronoscale.cuda_ext.operators.tables import gather_rows
from chronoscale.errors import UserError


def aggregate_edges(
    x: Tensor,
    target: Tensor,
    rows: int,
    source: Tensor | None = None,
    deterministic: bool = True,
    backend: BackendName = None,
    ascending: bool = False,
) -> Tensor:
    """Sum over a list of edges by an edge-parallel kernel (FAST, section 5): out[v] = sum over edges e with target[e] = v of x[source[e]].

    Returns [rows, F]; without sources x[e] is summed. x float32 or float64 [*, F]; target int32 or int64 [E] and source, of the same dtype,
    in any order; contiguous, on one device; a row without edges is zeros. Differentiable in x. `deterministic`: the same bits in every run,
    and on the CPU on any number of threads, where it always is so; without it CUDA adds by atomics in the order of the moment, as the paper
    does. There targets are sorted first, unless they are `ascending`, which is believed.

    Raises UserError when something does not fit, and for ids out of range. On CUDA the host does not wait to learn of those: an edge to no
    row is left out, one from no row is NaN.
    """
    if cpp_serves(x, backend):
        try:
            return cast(Tensor, load_operators().aggregate_edges(x, target, rows, source, deterministic, ascending))
        except REFUSALS as error:
            raise_unless_refused(error)
    check_matrix("aggregate_edges", "x", x, "F")
    check_ids("aggregate_edges", "target", target, len(x) if source is None else None, x.device)
    if source is not None:
        check_ids("aggregate_edges", "source", source, len(target), x.device, target.dtype)
    if not 0 <= index(rows) < INT32_LIMIT or len(x) > INT32_LIMIT:
        raise UserError(f"aggregate_edges: {rows} rows, and x of {len(x)}; expected numbers below 2^31")
    return cast(Tensor, _Aggregate.apply(x, target, rows, source, deterministic, backend, ascending))  # type: ignore[no-untyped-call]


class _Aggregate(torch.autograd.Function):
    """The sum over edges as an autograd function."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, target: Tensor, rows: int, source: Tensor | None, deterministic: bool, backend: BackendName, ascending: bool
    ) -> Tensor:
        ctx.save_for_backward(target, source)
        ctx.rows, ctx.deterministic, ctx.backend = len(x), deterministic, backend
        return select_edge_kernels(x.device, backend).aggregate(x, target, rows, source, deterministic, ascending)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        grad_out, (target, source) = gradients[0].resolve_neg().contiguous(), ctx.saved_tensors
        return *(_grad(grad_out, target, source, ctx.rows, ctx.deterministic, ctx.backend), None), *[None] * 5


def _grad(grad_out: Tensor, target: Tensor, source: Tensor | None, rows: int, deterministic: bool, backend: BackendName = None) -> Tensor:
    """Return the gradient of x: the sum of what its rows' edges carry back."""
    if source is None:
        return gather_rows(grad_out, grad_out.new_empty(0, grad_out.shape[1]), target, backend)
    return aggregate_edges(grad_out, source, rows, target, deterministic, backend)


_library: Any = torch.library.Library("chronoscale", "FRAGMENT")
_library.define("aggregate_edges(Tensor x, Tensor target, SymInt rows, Tensor? source=None, bool deterministic=True) -> Tensor")


def _op(x: Tensor, target: Tensor, rows: int, source: Tensor | None = None, deterministic: bool = True) -> Tensor:
    """Run the operator on plain tensors, without gradients, as torch.ops.chronoscale.aggregate_edges."""
    with torch.no_grad():
        return aggregate_edges(x, target, rows, source, deterministic)


def _fake(x: Tensor, target: Tensor, rows: int, source: Tensor | None = None, deterministic: bool = True) -> Tensor:
    """Return an empty result of the operator, for torch.compile and export."""
    torch._check(x.dim() == 2 and target.dim() == 1 and all(t is None or t.device == x.device for t in (target, source)))
    return x.new_empty(rows, x.shape[1])


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Save what the backward pass needs."""
    x, target, _, source, ctx.deterministic = inputs
    ctx.save_for_backward(target, source)
    ctx.rows = x.shape[0]


def _op_grad(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of the operator's arguments; None for those that have none."""
    target, source = ctx.saved_tensors
    ops, grad_out = torch.ops.chronoscale, grad_out.contiguous()
    if source is None:
        return ops.gather_rows(grad_out, grad_out.new_empty(0, grad_out.shape[1]), target), None, None, None, None
    return ops.aggregate_edges(grad_out, source, ctx.rows, target, ctx.deterministic), None, None, None, None


for _device in ("CPU", "CUDA"):
    _library.impl("aggregate_edges", _op, _device)
torch.library.register_fake("chronoscale::aggregate_edges", _fake)
torch.library.register_autograd("chronoscale::aggregate_edges", _op_grad, setup_context=_save)
