"""Step of a GRU on many rows (Cho et al. 2014, in torch's form), block by block of rows on a CPU."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import BackendName, select_kernels_without_cuda
from chronoscale.cuda_ext.operators.cell_weights import CellWeightGradients, CellWeights, check_cell, empty_gradient
from chronoscale.cuda_ext.operators.gates import forward_gates, gradient_gates
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
    return cast(Tensor, _Gru.apply(x, None if h is None else h.resolve_neg().contiguous(), *weights))  # type: ignore[no-untyped-call]


class _Gru(torch.autograd.Function):
    """The step as an autograd function on a CPU.

    It keeps the sums that gates are made of, [R, 3 H], and h_n, [R, H], which is scaled by r before it is added (none in a first step);
    the gates themselves are made anew by the backward kernel.
    """

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
            CellWeightGradients(w),
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
