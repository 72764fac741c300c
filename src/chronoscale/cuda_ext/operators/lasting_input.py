"""Steps of an LSTM or a GRU whose input stays as it is: its products with the weights are made once, and so is their gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import BackendName
from chronoscale.cuda_ext.operators.cell_steps import gru_step, gru_step_grad, lstm_step, lstm_step_grad
from chronoscale.cuda_ext.operators.cell_weights import CellWeights, check_cell, kernel_rows
from chronoscale.cuda_ext.operators.row_blocks import row_blocks
from chronoscale.errors import UserError

State = tuple[Tensor, Tensor]


class LastingInput:
    """Input rows of a recurrent cell that stay as they are from step to step, R of them: one `step` after another, from no state.

    x [R, D]; weights of a cell with 4 gates (LSTM) or 3 (GRU), float32 or float64 alike on one device. Differentiable, once, in x and in
    the weights. The steps of one object belong to one gradient pass. Raises UserError when something does not fit.
    """

    def __init__(self, x: Tensor, weights: CellWeights, backend: BackendName = None) -> None:
        gates = len(weights.weight_ih) // max(weights.weight_hh.shape[-1], 1)
        if gates not in (3, 4):
            raise UserError(f"a cell of 3 or 4 gates is expected, its weights have {gates}")
        check_cell("lasting input", x, weights, gates)
        self.is_lstm, self.backend = gates == 4, backend
        self._weights = weights
        bias = weights.bias_ih + weights.bias_hh if self.is_lstm else weights.bias_ih
        self._products = torch.addmm(bias, x, weights.weight_ih.t())  # [R, gates H]
        self._gradient: Tensor | None = None  # of the products: what steps have added up so far

    def step(self, state: State | None) -> State:
        """Take the next step: return the new state (h, c), [R, H] each, from the last one (None: zeros). A GRU's c is its h."""
        weights = self._weights
        if self.is_lstm:
            h, c = state or (None, None)
            return cast("State", _LstmStep.apply(self, self._products, h, c, weights.weight_hh))  # type: ignore[no-untyped-call]
        h = None if state is None else state[0]
        new_h = cast(Tensor, _GruStep.apply(self, self._products, h, weights.weight_hh, weights.bias_hh))  # type: ignore[no-untyped-call]
        return new_h, new_h

    def sums(self, like: Tensor) -> Tensor:
        """Return where steps add up the gradient of the products, zeros at first."""
        if self._gradient is None:
            self._gradient = torch.zeros_like(like, memory_format=torch.contiguous_format)
        return self._gradient

    def gradient_of(self, first: bool) -> Tensor | None:
        """Return a step's share of the gradient of the products: all of it for the first step, whose turn comes last; None for others."""
        whole, self._gradient = (self._gradient, None) if first else (None, self._gradient)
        return whole


def _blocks(x: Tensor, width: int) -> Iterator[slice]:
    """Return the blocks of rows of a step: what stays in a CPU's cache, or all."""
    return row_blocks(len(x), width) if x.device.type == "cpu" else iter((slice(0, len(x)),))


class _LstmStep(torch.autograd.Function):
    """An LSTM's step; it keeps the gates [R, 4 H], beside the states."""

    @staticmethod
    def forward(ctx: Any, of: LastingInput, products: Tensor, h: Tensor | None, c: Tensor | None, weight: Tensor) -> State:
        rows, hidden = len(products), weight.shape[1]
        gates, new_h, new_c = products.new_empty(rows, 4 * hidden), products.new_empty(rows, hidden), products.new_empty(rows, hidden)
        for block in _blocks(products, 4 * hidden):
            into = gates[block]
            from_state = None if h is None else torch.mm(h[block], weight.t(), out=into)
            read = kernel_rows(products, block)
            assert read is not None
            lstm_step(read, None, from_state, kernel_rows(c, block), None, into, new_h[block], new_c[block], of.backend)
        ctx.save_for_backward(h, c, weight, gates, new_c)
        ctx.of = of
        ctx.set_materialize_grads(False)
        return new_h, new_c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[object, ...]:
        h, c, weight, gates, new_c = ctx.saved_tensors
        of, (grad_h, grad_c) = ctx.of, gradients
        total, to_weight = of.sums(gates), torch.zeros_like(weight.t(), memory_format=torch.contiguous_format)
        to_h, to_c = (None, None) if h is None else (torch.empty_like(h), torch.empty_like(c))
        grad_h = torch.zeros_like(new_c) if grad_h is None else grad_h
        width = gates.shape[1]
        buffer: Tensor | None = None
        for block in _blocks(gates, width):
            buffer = gates.new_empty(block.stop - block.start, width) if buffer is None else buffer
            to_gates, into_h = buffer[: block.stop - block.start], kernel_rows(grad_h, block)
            assert into_h is not None
            old, to_old = (kernel_rows(c, block), None if to_c is None else to_c[block])
            into_c = kernel_rows(grad_c, block)
            lstm_step_grad(gates[block], old, None, new_c[block], into_h, into_c, None, total[block], to_gates, to_old, of.backend)
            if to_h is not None:
                to_weight.addmm_(h[block].t(), to_gates)
                torch.mm(to_gates, weight, out=to_h[block])
        return None, of.gradient_of(h is None), to_h, to_c, to_weight.t()


class _GruStep(torch.autograd.Function):
    """A GRU's step; it keeps r, z, n and h_n, [R, 4 H], beside the states."""

    @staticmethod
    def forward(ctx: Any, of: LastingInput, products: Tensor, h: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
        rows, hidden = len(products), weight.shape[1]
        saved, new_h = products.new_empty(rows, 4 * hidden), products.new_empty(rows, hidden)
        from_state = bias.contiguous()
        for block in _blocks(products, 3 * hidden):
            if h is not None:
                from_state = torch.addmm(bias, h[block], weight.t())
            read = kernel_rows(products, block)
            assert read is not None
            gru_step(read, None, from_state, kernel_rows(h, block), None, saved[block], new_h[block], of.backend)
        ctx.save_for_backward(h, weight, saved)
        ctx.of = of
        return new_h

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[object, ...]:
        h, weight, saved = ctx.saved_tensors
        of, hidden = ctx.of, weight.shape[1]
        width = 3 * hidden
        total = of.sums(saved[:, :width])
        to_weight, to_bias = torch.zeros_like(weight.t(), memory_format=torch.contiguous_format), weight.new_zeros(width)
        to_h = None if h is None else torch.empty_like(h)
        buffer: Tensor | None = None
        for block in _blocks(saved, width):
            buffer = saved.new_empty(block.stop - block.start, width) if buffer is None else buffer
            to_state, into_h = buffer[: block.stop - block.start], kernel_rows(gradients[0], block)
            assert into_h is not None
            to_old = None if to_h is None else to_h[block]
            gru_step_grad(saved[block], kernel_rows(h, block), None, into_h, None, total[block], to_state, to_old, of.backend)
            to_bias += to_state.sum(0)
            if to_old is not None:
                to_weight.addmm_(h[block].t(), to_state)
                to_old.addmm_(to_state, weight)
        return None, of.gradient_of(h is None), to_h, to_weight.t(), to_bias
