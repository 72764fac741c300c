"""An LSTM's step on many rows (Hochreiter and Schmidhuber 1997, in torch's form)."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import BackendName, select_kernels_without_cuda
from chronoscale.cuda_ext.operators.cell_weights import CellWeightGradients, CellWeights, check_cell, empty_gradient
from chronoscale.cuda_ext.operators.row_blocks import longest_block, row_blocks
from chronoscale.cuda_ext.reference import aggregation as reference


def lstm(x: Tensor, state: tuple[Tensor, Tensor] | None, weights: CellWeights, backend: BackendName = None) -> tuple[Tensor, Tensor]:
    """New (h, c), [R, H] each, from inputs x [R, D] and the state (h, c); None: zeros. For gates i, f, g, o of x and h together:

    c' = sigmoid(f) * c + sigmoid(i) * tanh(g);  h' = sigmoid(o) * tanh(c')

    All float32 or float64 alike, on one device. Differentiable, once, in everything. Raises UserError when something does not fit.
    """
    h, c = state or (None, None)
    check_cell("lstm", x, weights, 4, h=h, c=c)
    if select_kernels_without_cuda("an LSTM", x.device, backend) is reference:
        if state is None:
            state = (x.new_zeros(len(x), weights.kept.shape[1]),) * 2
        new_h, new_c = torch.lstm_cell(x, state, *weights)
        return new_h, new_c
    return cast("tuple[Tensor, Tensor]", _Lstm.apply(x, h, c, *weights))  # type: ignore[no-untyped-call]


class _Lstm(torch.autograd.Function):
    """Keeps the gates [R, 4 H], beside the states."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor | None, c: Tensor | None, *weights: Tensor) -> tuple[Tensor, Tensor]:
        w, rows = CellWeights(*weights), len(x)
        hidden = w.kept.shape[1]
        gates, new_h, new_c = x.new_empty(rows, 4 * hidden), x.new_empty(rows, hidden), x.new_empty(rows, hidden)
        bias = w.given_bias + w.kept_bias
        for block in row_blocks(rows, 4 * hidden):
            own = torch.addmm(bias, x[block], w.given.t(), out=gates[block])
            if h is not None:
                own.addmm_(h[block], w.kept.t())
            enter_forget, cell, shows = own.split([2 * hidden, hidden, hidden], 1)
            enter, forget = enter_forget.sigmoid_().chunk(2, 1)
            memory = torch.mul(enter, cell.tanh_(), out=new_c[block])
            if c is not None:
                memory.addcmul_(forget, c[block])
            torch.tanh(memory, out=new_h[block]).mul_(shows.sigmoid_())
        ctx.save_for_backward(x, h, c, *weights, gates, new_c)
        return new_h, new_c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, h, c, *weights, gates, new_c = ctx.saved_tensors
        w, (into_h, into_c), needs = CellWeights(*weights), gradients, ctx.needs_input_grad
        to_x, to_h, to_c, to_weights = (
            empty_gradient(x, needs[0]),
            empty_gradient(h, needs[1]),
            empty_gradient(c, needs[2]),
            CellWeightGradients(w),
        )
        width = len(w.kept)
        made = into_h.new_empty(longest_block(len(x), width), width)
        for block in row_blocks(len(x), width):
            own = made[: block.stop - block.start]
            memory = _into_gates(gates[block], None if c is None else c[block], new_c[block], into_h[block], into_c[block], own)
            to_weights.add_given(own, x[block])
            to_weights.add_kept(own, None if h is None else h[block])
            if to_x is not None:
                torch.mm(own, w.given, out=to_x[block])
            if to_h is not None:
                torch.mm(own, w.kept, out=to_h[block])
            if to_c is not None:
                to_c[block] = memory
        return to_x, to_h, to_c, *to_weights.all


def _into_gates(gates: Tensor, c: Tensor | None, new_c: Tensor, into_h: Tensor, into_c: Tensor, out: Tensor) -> Tensor:
    """A block's gradients before the activations, into `out` [r, 4 H]; returns that of c [r, H]."""
    enter, forget, cell, shows = gates.chunk(4, 1)
    to_enter, to_forget, to_cell, to_shows = out.chunk(4, 1)
    shown = new_c.tanh()
    torch.mul(into_h, shown, out=to_shows)
    into = torch.addcmul(into_c, into_h * shows, 1 - shown * shown)
    torch.mul(into, cell, out=to_enter)
    torch.mul(into, enter, out=to_cell)
    if c is None:
        to_forget.zero_()
    else:
        torch.mul(into, c, out=to_forget)
    for part, gate in ((to_enter, enter), (to_forget, forget), (to_shows, shows)):
        part.mul_(gate * (1 - gate))
    to_cell.mul_(1 - cell * cell)
    return into.mul_(forget)
