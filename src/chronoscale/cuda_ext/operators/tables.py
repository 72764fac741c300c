"""Rows of two tables by one index: what a device keeps and what it was sent, put together in one launch (FAST, section 4.2, figure 5)."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.backend import BackendName
from chronoscale.cuda_ext.native.cpp_operators import REFUSALS, cpp_serves, load_operators, raise_unless_refused
from chronoscale.cuda_ext.operators.edge_kernels import INT32_LIMIT, check_ids, check_matrix, select_edge_kernels
from chronoscale.cuda_ext.reference import edges as edges_reference
from chronoscale.errors import UserError


def gather_rows(cached: Tensor, sent: Tensor, index: Tensor, backend: BackendName = None) -> Tensor:
    """Gather rows of two feature tables (cached ones, and those just copied) by one index, in one kernel: [n, D].

    out[i] = cached[index[i]] where index[i] < C, else sent[index[i] - C]. cached [C, D] and sent [S, D] float32 or float64 alike, either
    may have no rows; index int32 or int64 [n]; contiguous, on one device. Differentiable in both tables, with the same bits in every run.
    Raises UserError when something does not fit, and for ids out of range, whose rows on CUDA are NaN instead.
    """
    if cpp_serves(cached, backend):
        try:
            return cast(Tensor, load_operators().gather_rows(cached, sent, index))
        except REFUSALS as error:
            raise_unless_refused(error)
    check_matrix("gather_rows", "cached", cached, "D")
    check_matrix("gather_rows", "sent", sent, "D", cached)
    check_ids("gather_rows", "index", index, None, cached.device)
    if len(cached) + len(sent) >= INT32_LIMIT:
        raise UserError(f"gather_rows: tables of {len(cached)} and {len(sent)} rows; expected fewer than 2^31 in all")
    return cast(Tensor, _Gather.apply(cached, sent, index, backend))  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    """The gathering of rows as an autograd function."""

    @staticmethod
    def forward(ctx: Any, cached: Tensor, sent: Tensor, index: Tensor, backend: BackendName) -> Tensor:
        ctx.save_for_backward(index)
        ctx.sizes, ctx.backend = (len(cached), len(sent)), backend
        return select_edge_kernels(cached.device, backend).gather(cached, sent, index)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        grad_out = gradients[0].resolve_neg().contiguous()
        return *_grads(grad_out, index, ctx.sizes, (ctx.needs_input_grad[0], ctx.needs_input_grad[1]), ctx.backend), None, None


def _grads(
    grad_out: Tensor, index: Tensor, sizes: tuple[int, int], needs: tuple[bool, bool], backend: BackendName = None
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of both tables, as far as they are needed: where one is not, its rows take no memory."""
    kernels, (cached, sent) = select_edge_kernels(grad_out.device, backend), sizes
    if all(needs):
        both = kernels.aggregate(grad_out, index, cached + sent, None, True, False)
        return both[:cached], both[cached:]
    begin, rows = (0, cached) if needs[0] else (cached, sent)
    if abi.on_cuda(grad_out) and kernels is not edges_reference:  # where an edge to no row is left out, and the host waits for nothing
        gradient = kernels.aggregate(grad_out, index - begin, rows, None, True, False)
    else:
        selected = ((index >= begin) & (index < begin + rows)).nonzero()[:, 0].to(index.dtype)
        gradient = kernels.aggregate(grad_out, index[selected] - begin, rows, selected, True, False)
    return (gradient, None) if needs[0] else (None, gradient)


_library: Any = torch.library.Library("chronoscale", "FRAGMENT")
_library.define("gather_rows(Tensor cached, Tensor sent, Tensor index) -> Tensor")


def _op(cached: Tensor, sent: Tensor, index: Tensor) -> Tensor:
    """Run the operator on plain tensors, without gradients, as torch.ops.chronoscale.gather_rows."""
    with torch.no_grad():
        return gather_rows(cached, sent, index)


def _fake(cached: Tensor, sent: Tensor, index: Tensor) -> Tensor:
    """Return an empty result of the operator, for torch.compile and export."""
    torch._check(cached.dim() == 2 and index.dim() == 1 and cached.device == sent.device == index.device)
    return cached.new_empty(index.shape[0], cached.shape[1])


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
    """Save what the backward pass needs."""
    cached, sent, index = inputs
    ctx.save_for_backward(index)
    ctx.sizes = cached.shape[0], sent.shape[0]


def _op_grad(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of the operator's arguments; None for those that have none."""
    (index,) = ctx.saved_tensors
    cached, sent = ctx.sizes
    both = torch.ops.chronoscale.aggregate_edges(grad_out.contiguous(), index, cached + sent)
    return both[:cached], both[cached:], None


for _device in ("CPU", "CUDA"):
    _library.impl("gather_rows", _op, _device)
torch.library.register_fake("chronoscale::gather_rows", _fake)
torch.library.register_autograd("chronoscale::gather_rows", _op_grad, setup_context=_save)
