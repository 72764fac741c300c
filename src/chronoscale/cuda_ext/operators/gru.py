"""Step of a GRU on many rows (Cho et al. 2014, in torch's form), block by block of rows on a CPU."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import BackendName, select_kernels_without_cuda
from chronoscale.cuda_ext.operators.cell_steps import gru_step, gru_step_grad
from chronoscale.cuda_ext.operators.cell_weights import CellWeightGradients, CellWeights, check_cell, empty_gradient, kernel_rows
from chronoscale.cuda_ext.operators.row_blocks import longest_block, row_blocks
from chronoscale.cuda_ext.reference import aggregation as aggregation_reference


def gru(x: Tensor, h: Tensor | None, weights: CellWeights, backend: BackendName = None) -> Tensor:
    """Run one step of a GRU cell on many rows by the CPU kernels: return the new state [R, H] from inputs x [R, D] and the state h [R, H].

    h None: zeros.

        r, z = sigmoid(x + h)
        n = tanh(x_n + r * h_n)
        h' = n + z * (h - n)

    Here x and h stand for their products with the weights of each gate r, z, n, biases included. All are float32 or float64 alike, on one
    device; on others than a CPU torch's operator runs. Differentiable, once, in everything. Raises UserError when something does not fit.
    """
    check_cell("gru", x, weights, 3, h=h)
    if select_kernels_without_cuda("a GRU", x.device, backend) is aggregation_reference:
        return torch.gru_cell(x, x.new_zeros(len(x), weights.weight_hh.shape[1]) if h is None else h, *weights)
    return cast(Tensor, _Gru.apply(x, h, *weights))  # type: ignore[no-untyped-call]


class _Gru(torch.autograd.Function):
    """The step as an autograd function on a CPU; it keeps r, z, n and h_n, [R, 4 H], beside the states."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor | None, *weights: Tensor) -> Tensor:
        w, num_rows = CellWeights(*weights), len(x)
        hidden = w.weight_hh.shape[1]
        saved, out = x.new_empty(num_rows, 4 * hidden), x.new_empty(num_rows, hidden)
        input_products, state_products = x.new_empty(2, longest_block(num_rows, 3 * hidden), 3 * hidden)
        from_state = w.bias_hh.contiguous()
        for block in row_blocks(num_rows, 3 * hidden):
            length = block.stop - block.start
            from_input = torch.addmm(w.bias_ih, x[block], w.weight_ih.t(), out=input_products[:length])
            if h is not None:
                from_state = torch.addmm(w.bias_hh, h[block], w.weight_hh.t(), out=state_products[:length])
            gru_step(from_input, None, from_state, kernel_rows(h, block), None, saved[block], out[block])
        ctx.save_for_backward(x, h, *weights, saved)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, h, *weights, saved = ctx.saved_tensors
        w, hidden = CellWeights(*weights), saved.shape[1] // 4
        to_x, to_h, to_weights = (
            empty_gradient(x, ctx.needs_input_grad[0]),
            empty_gradient(h, ctx.needs_input_grad[1]),
            CellWeightGradients(w),
        )
        input_grads, state_grads = saved.new_empty(2, longest_block(len(x), 3 * hidden), 3 * hidden)
        for block in row_blocks(len(x), 3 * hidden):
            length = block.stop - block.start
            to_input, to_state, old_h = input_grads[:length], state_grads[:length], kernel_rows(h, block)
            grad_out, to_old_h = kernel_rows(gradients[0], block), None if to_h is None else to_h[block]
            assert grad_out is not None
            gru_step_grad(saved[block], old_h, None, grad_out, None, to_input, to_state, to_old_h, add=False)
            to_weights.add_input(to_input, x[block])
            to_weights.add_state(to_state, old_h)
            if to_x is not None:
                torch.mm(to_input, w.weight_ih, out=to_x[block])
            if to_old_h is not None:
                to_old_h.addmm_(to_state, w.weight_hh)
        return to_x, to_h, *to_weights.collect()
