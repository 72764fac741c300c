"""Step of an LSTM on many rows (Hochreiter and Schmidhuber 1997, in torch's form), block by block of rows on a CPU."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import BackendName, select_kernels_without_cuda
from chronoscale.cuda_ext.operators.cell_steps import lstm_step, lstm_step_grad
from chronoscale.cuda_ext.operators.cell_weights import CellWeightGradients, CellWeights, check_cell, empty_gradient, kernel_rows
from chronoscale.cuda_ext.operators.row_blocks import longest_block, row_blocks
from chronoscale.cuda_ext.reference import aggregation as aggregation_reference


def lstm(x: Tensor, state: tuple[Tensor, Tensor] | None, weights: CellWeights, backend: BackendName = None) -> tuple[Tensor, Tensor]:
    """Run one step of an LSTM cell on many rows by the CPU kernels: return the new (h, c), [R, H] each, from inputs x [R, D] and (h, c).

    state None: zeros.

        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(c')

    Gates i, f, g and o are sums of products of x and of h with their weights, and biases. All are float32 or float64 alike, on one device;
    on others than a CPU torch's operator runs. Differentiable, once, in everything. Raises UserError when something does not fit.
    """
    h, c = state or (None, None)
    check_cell("lstm", x, weights, 4, h=h, c=c)
    if select_kernels_without_cuda("an LSTM", x.device, backend) is aggregation_reference:
        if state is None:
            state = (x.new_zeros(len(x), weights.weight_hh.shape[1]),) * 2
        new_h, new_c = torch.lstm_cell(x, state, *weights)
        return new_h, new_c
    return cast("tuple[Tensor, Tensor]", _Lstm.apply(x, h, c, *weights))  # type: ignore[no-untyped-call]


class _Lstm(torch.autograd.Function):
    """The step as an autograd function on a CPU; it keeps the gates [R, 4 H], beside the states."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor | None, c: Tensor | None, *weights: Tensor) -> tuple[Tensor, Tensor]:
        w, num_rows = CellWeights(*weights), len(x)
        hidden = w.weight_hh.shape[1]
        gates, new_h, new_c = x.new_empty(num_rows, 4 * hidden), x.new_empty(num_rows, hidden), x.new_empty(num_rows, hidden)
        bias = w.bias_ih + w.bias_hh
        for block in row_blocks(num_rows, 4 * hidden):
            block_gates = torch.addmm(bias, x[block], w.weight_ih.t(), out=gates[block])
            if h is not None:
                block_gates.addmm_(h[block], w.weight_hh.t())
            lstm_step(block_gates, None, None, kernel_rows(c, block), None, block_gates, new_h[block], new_c[block])
        ctx.save_for_backward(x, h, c, *weights, gates, new_c)
        ctx.set_materialize_grads(False)
        return new_h, new_c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        x, h, c, *weights, gates, new_c = ctx.saved_tensors
        w, (grad_h, grad_c), needs = CellWeights(*weights), gradients, ctx.needs_input_grad
        to_x, to_h, to_c, to_weights = (
            empty_gradient(x, needs[0]),
            empty_gradient(h, needs[1]),
            empty_gradient(c, needs[2]),
            CellWeightGradients(w),
        )
        width = len(w.weight_hh)
        gate_grads = gates.new_empty(longest_block(len(x), width), width)
        if grad_h is None:
            grad_h = torch.zeros_like(new_c)
        for block in row_blocks(len(x), width):
            block_grads, old_c, into_h = gate_grads[: block.stop - block.start], kernel_rows(c, block), kernel_rows(grad_h, block)
            assert into_h is not None
            into_c, to_old_c = kernel_rows(grad_c, block), None if to_c is None else to_c[block]
            lstm_step_grad(gates[block], old_c, None, new_c[block], into_h, into_c, None, None, block_grads, to_old_c)
            to_weights.add_input(block_grads, x[block])
            to_weights.add_state(block_grads, None if h is None else h[block])
            if to_x is not None:
                torch.mm(block_grads, w.weight_ih, out=to_x[block])
            if to_h is not None:
                torch.mm(block_grads, w.weight_hh, out=to_h[block])
        return to_x, to_h, to_c, *to_weights.collect()
