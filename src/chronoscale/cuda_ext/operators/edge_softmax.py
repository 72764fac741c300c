"""Softmax over the edges of each node, for each head, a thread to a node's few edges (FAST, section 4.3, "Edge Softmax").

shares = edge_softmax(scores, indptr)              entries of row v are indptr[v] to indptr[v + 1]
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import BackendName
from chronoscale.cuda_ext.native.cpp_operators import REFUSALS, cpp_serves, load_operators, raise_unless_refused
from chronoscale.cuda_ext.operators.edge_kernels import INT32_LIMIT, check_ids, check_matrix, select_edge_kernels
from chronoscale.errors import UserError


def edge_softmax(scores: Tensor, indptr: Tensor, backend: BackendName = None, longest: int | None = None) -> Tensor:
    """Return the softmax of scores over the edges of each node, for each head, by a kernel: shares [E, H] (FAST, section 4.3).

    scores float32 or float64 [E, H]; indptr int64 [rows + 1], ascending from 0 to E; contiguous, on one device. As torch.softmax has it, a
    score of -inf has no share, and a row with a NaN, with +inf or with nothing but -inf is NaN in that head; an empty row is nothing.
    Differentiable in scores, once. The same bits in every run, and on any number of threads. `longest`: the most entries of a row, where
    that is known (a sampler's fan-out): below 512 CUDA needs one launch; more entries than that come out right, later.

    Raises UserError when something does not fit or pointers do not ascend; on CUDA the host does not wait to learn of that, and entries of
    no row are not written.
    """
    if cpp_serves(scores, backend):
        try:
            return cast(Tensor, load_operators().edge_softmax(scores, indptr, -1 if longest is None else longest))
        except REFUSALS as error:
            raise_unless_refused(error)
    check_matrix("edge_softmax", "scores", scores, "H")
    check_ids("edge_softmax", "indptr", indptr, None, scores.device, torch.int64)
    if not len(indptr) or len(scores) >= INT32_LIMIT:
        raise UserError(f"edge_softmax: {len(indptr)} pointers into {len(scores)} scores; expected 1 pointer at least, and less than 2^31")
    return cast(Tensor, _Softmax.apply(scores, indptr, backend, longest))  # type: ignore[no-untyped-call]


class _Softmax(torch.autograd.Function):
    """The softmax over edges as an autograd function."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, indptr: Tensor, backend: BackendName, longest: int | None) -> Tensor:
        shares = select_edge_kernels(scores.device, backend).softmax(scores, indptr, longest)
        ctx.save_for_backward(shares, indptr)
        ctx.backend, ctx.longest = backend, longest
        return shares

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        shares, indptr = ctx.saved_tensors
        grad_out = gradients[0].resolve_neg().contiguous()
        return select_edge_kernels(grad_out.device, ctx.backend).softmax_grad(shares, grad_out, indptr, ctx.longest), None, None, None


_library: Any = torch.library.Library("chronoscale", "FRAGMENT")
_library.define("edge_softmax(Tensor scores, Tensor indptr) -> Tensor")
_library.define("edge_softmax_grad(Tensor shares, Tensor into, Tensor indptr) -> Tensor")


def _op(scores: Tensor, indptr: Tensor) -> Tensor:
    """Run the operator on plain tensors, without gradients, as torch.ops.chronoscale.edge_softmax."""
    with torch.no_grad():
        return edge_softmax(scores, indptr)


def _op_grad(shares: Tensor, grad_out: Tensor, indptr: Tensor) -> Tensor:
    """Compute the gradient of the scores on plain tensors, as torch.ops.chronoscale.edge_softmax_grad."""
    for name, tensor in (("shares", shares), ("into", grad_out)):
        check_matrix("edge_softmax", name, tensor, "H", shares)
    check_ids("edge_softmax", "indptr", indptr, None, shares.device, torch.int64)
    if not len(indptr) or shares.shape != grad_out.shape:
        raise UserError(
            f"edge_softmax: shares {list(shares.shape)}, gradients {list(grad_out.shape)} and {len(indptr)} pointers do not fit"
        )
    return select_edge_kernels(shares.device, None).softmax_grad(shares, grad_out, indptr, None)


def _fake(scores: Tensor, *others: Tensor) -> Tensor:
    """Return an empty result of the operator, for torch.compile and export."""
    torch._check(scores.dim() == 2 and all(other.device == scores.device for other in others))
    return torch.empty_like(scores)


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    """Save what the backward pass needs."""
    ctx.save_for_backward(output, inputs[1])


def _backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, None]:
    """Return the gradients of the operator's arguments; None for those that have none."""
    shares, indptr = ctx.saved_tensors
    return torch.ops.chronoscale.edge_softmax_grad(shares, grad_out.contiguous(), indptr), None


for _device in ("CPU", "CUDA"):
    _library.impl("edge_softmax", _op, _device)
    _library.impl("edge_softmax_grad", _op_grad, _device)
torch.library.register_fake("chronoscale::edge_softmax", _fake)
torch.library.register_fake("chronoscale::edge_softmax_grad", _fake)
torch.library.register_autograd("chronoscale::edge_softmax", _backward, setup_context=_save)
