"""Step of an LSTM on many rows (Hochreiter and Schmidhuber 1997, in torch's form), block by block of rows on a CPU."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import BackendName, select_kernels_without_cuda
from chronoscale.cuda_ext.operators.cell_weights import CellWeightGradients, CellWeights, check_cell, empty_gradient
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
            input_forget, cell, output = block_gates.split([2 * hidden, hidden, hidden], 1)
            input_gate, forget_gate = input_forget.sigmoid_().chunk(2, 1)
            memory = torch.mul(input_gate, cell.tanh_(), out=new_c[block])
            if c is not None:
                memory.addcmul_(forget_gate, c[block])
            torch.tanh(memory, out=new_h[block]).mul_(output.sigmoid_())
        ctx.save_for_backward(x, h, c, *weights, gates, new_c)
        return new_h, new_c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, h, c, *weights, gates, new_c = ctx.saved_tensors
        w, (grad_h, grad_c), needs = CellWeights(*weights), gradients, ctx.needs_input_grad
        to_x, to_h, to_c, to_weights = (
            empty_gradient(x, needs[0]),
            empty_gradient(h, needs[1]),
            empty_gradient(c, needs[2]),
            CellWeightGradients(w),
        )
        width = len(w.weight_hh)
        gate_grads = grad_h.new_empty(longest_block(len(x), width), width)
        for block in row_blocks(len(x), width):
            block_grads = gate_grads[: block.stop - block.start]
            memory = _write_gate_gradients(
                gates[block], None if c is None else c[block], new_c[block], grad_h[block], grad_c[block], block_grads
            )
            to_weights.add_input(block_grads, x[block])
            to_weights.add_state(block_grads, None if h is None else h[block])
            if to_x is not None:
                torch.mm(block_grads, w.weight_ih, out=to_x[block])
            if to_h is not None:
                torch.mm(block_grads, w.weight_hh, out=to_h[block])
            if to_c is not None:
                to_c[block] = memory
        return to_x, to_h, to_c, *to_weights.all


def _write_gate_gradients(gates: Tensor, c: Tensor | None, new_c: Tensor, grad_h: Tensor, grad_c_out: Tensor, out: Tensor) -> Tensor:
    """Write a block's gradients before the activations into `out` [r, 4 H]; return the gradient of c [r, H]."""
    input_gate, forget_gate, cell, output = gates.chunk(4, 1)
    to_input_gate, to_forget_gate, to_cell, to_output = out.chunk(4, 1)
    tanh_c = new_c.tanh()
    torch.mul(grad_h, tanh_c, out=to_output)
    grad_c = torch.addcmul(grad_c_out, grad_h * output, 1 - tanh_c * tanh_c)
    torch.mul(grad_c, cell, out=to_input_gate)
    torch.mul(grad_c, input_gate, out=to_cell)
    if c is None:
        to_forget_gate.zero_()
    else:
        torch.mul(grad_c, c, out=to_forget_gate)
    for part, gate in ((to_input_gate, input_gate), (to_forget_gate, forget_gate), (to_output, output)):
        part.mul_(gate * (1 - gate))
    to_cell.mul_(1 - cell * cell)
    return grad_c.mul_(forget_gate)
