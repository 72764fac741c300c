"""A GRU's step on many rows (Cho et al. 2014, in torch's form)."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import BackendName, select_kernels_without_cuda
from chronoscale.cuda_ext.operators.cell_weights import CellWeightGradients, CellWeights, check_cell, empty_gradient
from chronoscale.cuda_ext.operators.gates import forward_gates, gradient_gates
from chronoscale.cuda_ext.operators.row_blocks import longest_block, row_blocks
from chronoscale.cuda_ext.reference import aggregation as reference


def gru(x: Tensor, h: Tensor | None, weights: CellWeights, backend: BackendName = None) -> Tensor:
    """New state [R, H] from inputs x [R, D] and the state h [R, H]; None: zeros. For gates r, z, n, x and h multiplied each on its own:

    r, z = sigmoid(x + h);  n = tanh(x_n + r * h_n);  h' = n + z * (h - n)

    All float32 or float64 alike, on one device. Differentiable, once, in everything. Raises UserError when something does not fit.
    """
    check_cell("gru", x, weights, 3, h=h)
    if select_kernels_without_cuda("a GRU", x.device, backend) is reference:
        return torch.gru_cell(x, x.new_zeros(len(x), weights.kept.shape[1]) if h is None else h, *weights)
    return cast(Tensor, _Gru.apply(x, None if h is None else h.resolve_neg().contiguous(), *weights))  # type: ignore[no-untyped-call]


class _Gru(torch.autograd.Function):
    """Keeps what gates are made of, [R, 3 H], and h_n, [R, H], which is scaled by r before it is added (none in a first step); the gates
    themselves are made anew by the backward kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor | None, *weights: Tensor) -> Tensor:
        w, rows = CellWeights(*weights), len(x)
        hidden = w.kept.shape[1]
        size = longest_block(rows, 3 * hidden)
        given, out, there = x.new_empty(rows, 3 * hidden), x.new_empty(rows, hidden), torch.ones(size, dtype=torch.bool)
        kept = x.new_empty(rows if h is not None else 0, hidden)
        other_h = x.new_empty(size, 3 * hidden) if h is not None else w.kept_bias.expand(size, -1).contiguous()
        zeros = x.new_zeros(0 if h is not None else size, hidden)
        for block in row_blocks(rows, 3 * hidden):
            count = block.stop - block.start
            own = torch.addmm(w.given_bias, x[block], w.given.t(), out=given[block])
            if h is None:
                forward_gates(own, other_h[:count], zeros[:count], there[:count], out[block])
            else:
                other = torch.addmm(w.kept_bias, h[block], w.kept.t(), out=other_h[:count])
                forward_gates(own, other, h[block], there[:count], out[block])
                own[:, : 2 * hidden] += other[:, : 2 * hidden]
                kept[block] = other[:, 2 * hidden :]
        ctx.save_for_backward(x, h, *weights, given, kept)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, h, *weights, given, kept = ctx.saved_tensors
        w, into = CellWeights(*weights), gradients[0].resolve_neg().contiguous()
        hidden = w.kept.shape[1]
        size = longest_block(len(x), 3 * hidden)
        to_x, to_h, to_weights = (
            empty_gradient(x, ctx.needs_input_grad[0]),
            empty_gradient(h, ctx.needs_input_grad[1]),
            CellWeightGradients(w),
        )
        made, other = into.new_empty(2, size, 3 * hidden)
        there, zeros = torch.ones(size, dtype=torch.bool), into.new_zeros(0 if h is not None else size, hidden)
        other_h = w.kept_bias.expand(size, -1).contiguous() if h is None else into.new_zeros(size, 3 * hidden)
        for block in row_blocks(len(x), 3 * hidden):
            count = block.stop - block.start
            to_given, to_kept = made[:count], other[:count]
            before, memory = other_h[:count], zeros[:count] if h is None else h[block]
            if h is not None:
                before[:, 2 * hidden :] = kept[block]
            straight = None if to_h is None else to_h[block]
            gradient_gates(given[block], before, memory, there[:count], into[block], to_given, to_kept, straight)
            to_weights.add_given(to_given, x[block])
            to_weights.add_kept(to_kept, None if h is None else memory)
            if to_x is not None:
                torch.mm(to_given, w.given, out=to_x[block])
            if straight is not None:
                straight.addmm_(to_kept, w.kept)
        return to_x, to_h, *to_weights.all
