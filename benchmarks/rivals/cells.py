"""Steps of an LSTM and of a GRU on a CPU as they were before each had a kernel for all that follows its products.

As `lstm` and `gru` they take block after block of rows. An LSTM's gates are a chain of torch's operators; a GRU's are the kernel `gates`,
and torch's operators that keep what its gradient needs. Operands are theirs, contiguous.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.cell_weights import CellWeights, empty_gradient
from chronoscale.cuda_ext.operators.gates import forward_gates, gradient_gates
from chronoscale.cuda_ext.operators.row_blocks import longest_block, row_blocks


class Gradients:
    """Gradients of a cell's weights, added up block by block."""

    def __init__(self, weights: CellWeights) -> None:
        self.all = CellWeights(*(torch.zeros_like(part) for part in weights))

    def add_input(self, gates: Tensor, x: Tensor) -> None:
        """Add a block's share to the gradients of the input's weights."""
        self.all.weight_ih.addmm_(gates.t(), x)
        self.all.bias_ih.add_(gates.sum(0))

    def add_state(self, gates: Tensor, h: Tensor | None) -> None:
        """Add a block's share to the gradients of the state's weights."""
        if h is not None:
            self.all.weight_hh.addmm_(gates.t(), h)
        self.all.bias_hh.add_(gates.sum(0))


class TorchLstm(torch.autograd.Function):
    """The step of an LSTM: gates in place, by torch's operators, a block of rows at a time."""

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
            Gradients(w),
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


class GatesGru(torch.autograd.Function):
    """The step of a GRU by the kernel `gates`, which makes the gates anew backwards: kept are their sums [R, 3 H] and h_n [R, H]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor | None, *weights: Tensor) -> Tensor:
        w, num_rows = CellWeights(*weights), len(x)
        hidden = w.weight_hh.shape[1]
        longest = longest_block(num_rows, 3 * hidden)
        gate_sums, out, all_rows = x.new_empty(num_rows, 3 * hidden), x.new_empty(num_rows, hidden), torch.ones(longest, dtype=torch.bool)
        candidate_states = x.new_empty(num_rows if h is not None else 0, hidden)
        state_products = x.new_empty(longest, 3 * hidden) if h is not None else w.bias_hh.expand(longest, -1).contiguous()
        no_state = x.new_zeros(0 if h is not None else longest, hidden)
        for block in row_blocks(num_rows, 3 * hidden):
            length = block.stop - block.start
            block_sums = torch.addmm(w.bias_ih, x[block], w.weight_ih.t(), out=gate_sums[block])
            if h is None:
                forward_gates(block_sums, state_products[:length], no_state[:length], all_rows[:length], out[block])
            else:
                from_state = torch.addmm(w.bias_hh, h[block], w.weight_hh.t(), out=state_products[:length])
                forward_gates(block_sums, from_state, h[block], all_rows[:length], out[block])
                block_sums[:, : 2 * hidden] += from_state[:, : 2 * hidden]
                candidate_states[block] = from_state[:, 2 * hidden :]
        ctx.save_for_backward(x, h, *weights, gate_sums, candidate_states)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, h, *weights, gate_sums, candidate_states = ctx.saved_tensors
        w, grad_out = CellWeights(*weights), gradients[0].resolve_neg().contiguous()
        hidden = w.weight_hh.shape[1]
        longest = longest_block(len(x), 3 * hidden)
        to_x, to_h, to_weights = (
            empty_gradient(x, ctx.needs_input_grad[0]),
            empty_gradient(h, ctx.needs_input_grad[1]),
            Gradients(w),
        )
        input_grads, state_grads = grad_out.new_empty(2, longest, 3 * hidden)
        all_rows, no_state = torch.ones(longest, dtype=torch.bool), grad_out.new_zeros(0 if h is not None else longest, hidden)
        state_products = w.bias_hh.expand(longest, -1).contiguous() if h is None else grad_out.new_zeros(longest, 3 * hidden)
        for block in row_blocks(len(x), 3 * hidden):
            length = block.stop - block.start
            to_input, to_state = input_grads[:length], state_grads[:length]
            from_state, memory = state_products[:length], no_state[:length] if h is None else h[block]
            if h is not None:
                from_state[:, 2 * hidden :] = candidate_states[block]
            to_h_block = None if to_h is None else to_h[block]
            gradient_gates(gate_sums[block], from_state, memory, all_rows[:length], grad_out[block], to_input, to_state, to_h_block)
            to_weights.add_input(to_input, x[block])
            to_weights.add_state(to_state, None if h is None else memory)
            if to_x is not None:
                torch.mm(to_input, w.weight_ih, out=to_x[block])
            if to_h_block is not None:
                to_h_block.addmm_(to_state, w.weight_hh)
        return to_x, to_h, *to_weights.all
