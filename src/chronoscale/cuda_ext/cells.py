"""Recurrent cells on many rows (GRU: Cho et al. 2014; LSTM: Hochreiter and Schmidhuber 1997; in torch's form), block by block of rows.

    h = gru(x, h, weights)
    h, c = lstm(x, state, weights)

On a CPU the gates of a block are made and used while they lie in the cache, and only what the backward pass needs goes to memory; a first
step, whose state is zero, multiplies nothing with it. Elsewhere torch's cells run.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext import reference
from chronoscale.cuda_ext.backend import FLOATS, Pinned, select_without_cuda
from chronoscale.cuda_ext.blocks import blocks, longest
from chronoscale.cuda_ext.dense import multiply
from chronoscale.cuda_ext.gates import forward_gates, gradient_gates
from chronoscale.cuda_ext.graph import described
from chronoscale.errors import UserError


class Weights(NamedTuple):
    """As torch's cells have them, for G gates (GRU 3, LSTM 4): given [G H, D] and kept [G H, H], their biases [G H] each."""

    given: Tensor
    kept: Tensor
    given_bias: Tensor
    kept_bias: Tensor


def gru(x: Tensor, h: Tensor | None, weights: Weights, backend: Pinned = None) -> Tensor:
    """New state [R, H] from inputs x [R, D] and the state h [R, H]; None: zeros.

    All float32 or float64 alike, on one device. Differentiable, once, in everything. Raises UserError when something does not fit.
    """
    _check("gru", x, weights, 3, h)
    if select_without_cuda("a GRU", x.device, backend, slower=False) is reference:
        return torch.gru_cell(x, x.new_zeros(len(x), weights.kept.shape[1]) if h is None else h, *weights)
    return cast(Tensor, _Gru.apply(x, None if h is None else h.resolve_neg().contiguous(), *weights))  # type: ignore[no-untyped-call]


def lstm(x: Tensor, state: tuple[Tensor, Tensor] | None, weights: Weights, backend: Pinned = None) -> tuple[Tensor, Tensor]:
    """New (h, c) [R, H] each from inputs x [R, D] and the state (h, c); None: zeros. As `gru`."""
    _check("lstm", x, weights, 4, *(state or (None, None)))
    if select_without_cuda("an LSTM", x.device, backend, slower=False) is reference:
        zeros = x.new_zeros(len(x), weights.kept.shape[1])
        h, c = torch.lstm_cell(x, state or (zeros, zeros), *weights)
        return h, c
    return cast("tuple[Tensor, Tensor]", _Lstm.apply(x, *(state or (None, None)), *weights))  # type: ignore[no-untyped-call]


class _Into:
    """Gradients of a cell's weights, added up block by block, and where those of its rows go."""

    def __init__(self, x: Tensor, h: Tensor | None, weights: tuple[Tensor, ...], needs: tuple[bool, ...]) -> None:
        """needs: of x and h."""
        self.x = torch.empty_like(x, memory_format=torch.contiguous_format) if needs[0] else None
        self.h = torch.empty_like(h, memory_format=torch.contiguous_format) if h is not None and needs[1] else None
        self.weights = [torch.zeros_like(part) for part in weights]
        self._parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in weights[:2]]

    def add(self, side: int, gates: Tensor, rows: Tensor) -> None:
        """Of a block's gates [r, G H], which `rows` were multiplied for: side 0 given, 1 kept."""
        self.weights[side] += multiply(gates.t(), rows, None, self._parts[side])
        self.weights[2 + side] += gates.sum(0)


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor | None, *weights: Tensor) -> Tensor:
        w, saved = Weights(*weights), any(ctx.needs_input_grad)
        rows, hidden = len(x), w.kept.shape[1]
        most = rows if saved else longest(rows)
        given, kept = x.new_empty(most, 3 * hidden), x.new_empty(longest(rows) if h is None else most, 3 * hidden)
        there = torch.ones(longest(rows), dtype=torch.bool)
        zeros, out = x.new_zeros(0 if h is not None else longest(rows), hidden), x.new_empty(rows, hidden)
        if h is None:
            kept.copy_(w.kept_bias)
        for block in blocks(rows):
            count = block.stop - block.start
            own = given[block if saved else slice(count)]
            other = kept[slice(count) if h is None or not saved else block]
            multiply(x[block], w.given.t(), w.given_bias, own)
            if h is not None:
                multiply(h[block], w.kept.t(), w.kept_bias, other)
            forward_gates(own, other, zeros[:count] if h is None else h[block], there[:count], out[block])
        if saved:
            ctx.save_for_backward(x, h, *weights, given, kept)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, h, *weights, given, kept = ctx.saved_tensors
        w, g = Weights(*weights), gradients[0].resolve_neg().contiguous()
        into = _Into(x, h, w, ctx.needs_input_grad[:2])
        rows, hidden = g.shape
        size = longest(rows)
        there, zeros = torch.ones(size, dtype=torch.bool), g.new_zeros(0 if h is not None else size, hidden)
        (to_given, to_kept), back = g.new_empty(2, size, 3 * hidden), g.new_empty(size, hidden)
        for block in blocks(rows):
            count = block.stop - block.start
            own, other = to_given[:count], to_kept[:count]
            memory = zeros[:count] if h is None else h[block]
            past = None if into.h is None else into.h[block]
            gradient_gates(given[block], kept[:count] if h is None else kept[block], memory, there[:count], g[block], own, other, past)
            into.add(0, own, x[block])
            if into.x is not None:
                multiply(own, w.given, None, into.x[block])
            if h is None:
                into.weights[3] += other.sum(0)
            else:
                into.add(1, other, h[block])
            if past is not None:
                past += multiply(other, w.kept, None, back[:count])
        return into.x, into.h, *into.weights


class _Lstm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor | None, c: Tensor | None, *weights: Tensor) -> tuple[Tensor, Tensor]:
        w, saved = Weights(*weights), any(ctx.needs_input_grad)
        rows, hidden = len(x), w.kept.shape[1]
        gates = x.new_empty(rows if saved else longest(rows), 4 * hidden)
        new_h, new_c = x.new_empty(rows, hidden), x.new_empty(rows, hidden)
        bias, room = w.given_bias + w.kept_bias, x.new_empty(0 if h is None else longest(rows), 4 * hidden)
        for block in blocks(rows):
            own = gates[block if saved else slice(block.stop - block.start)]
            multiply(x[block], w.given.t(), bias, own)
            if h is not None:
                own += multiply(h[block], w.kept.t(), None, room[: len(own)])
            opens, cell, shows = own[:, : 2 * hidden].sigmoid_(), own[:, 2 * hidden : 3 * hidden].tanh_(), own[:, 3 * hidden :].sigmoid_()
            torch.mul(opens[:, :hidden], cell, out=new_c[block])
            if c is not None:
                new_c[block].addcmul_(opens[:, hidden:], c[block])
            torch.tanh(new_c[block], out=new_h[block]).mul_(shows)
        if saved:
            ctx.save_for_backward(x, h, c, *weights, gates, new_c)
        return new_h, new_c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, h, c, *weights, gates, new_c = ctx.saved_tensors
        w, (g, past) = Weights(*weights), gradients
        into, rows, hidden = _Into(x, h, w, ctx.needs_input_grad[:2]), len(x), w.kept.shape[1]
        into_c = torch.empty_like(c) if c is not None and ctx.needs_input_grad[2] else None
        made = g.new_empty(longest(rows), 4 * hidden)
        for block in blocks(rows):
            own = made[: block.stop - block.start]
            memory = None if c is None else c[block]
            forget = _lstm_gates(own, gates[block], memory, new_c[block], g[block], past[block])
            into.add(0, own, x[block])
            if into.x is not None:
                multiply(own, w.given, None, into.x[block])
            if h is not None:
                into.add(1, own, h[block])
                if into.h is not None:
                    multiply(own, w.kept, None, into.h[block])
            if into_c is not None:
                into_c[block].copy_(forget)
        into.weights[3] = into.weights[2].clone()
        return into.x, into.h, into_c, *into.weights


def _lstm_gates(out: Tensor, gates: Tensor, c: Tensor | None, new_c: Tensor, to_h: Tensor, to_c: Tensor) -> Tensor:
    """A block's gradients before the activations, into `out` [r, 4 H]; returns that of c [r, H]."""
    enter, forget, cell, shows = gates.chunk(4, 1)
    to_enter, to_forget, to_cell, to_shows = out.chunk(4, 1)
    shown = new_c.tanh()
    torch.mul(to_h, shown, out=to_shows)
    to_c = torch.addcmul(to_c, to_h * shows, 1 - shown * shown)
    torch.mul(to_c, cell, out=to_enter)
    torch.mul(to_c, enter, out=to_cell)
    if c is None:
        to_forget.zero_()
    else:
        torch.mul(to_c, c, out=to_forget)
    for part, gate in ((to_enter, enter), (to_forget, forget), (to_shows, shows)):
        part.mul_(gate * (1 - gate))
    to_cell.mul_(1 - cell * cell)
    return to_c.mul_(forget)


def _check(name: str, x: Tensor, weights: Weights, gates: int, *states: Tensor | None) -> None:
    """Raises UserError for what does not fit."""
    if x.dim() != 2 or x.dtype not in FLOATS:
        raise UserError(f"{name}: x is {described(x)}; expected float32 or float64 [R, D]")
    hidden = weights.kept.shape[-1]
    wanted = {"given": (gates * hidden, x.shape[1]), "kept": (gates * hidden, hidden)}
    wanted |= {"given_bias": (gates * hidden,), "kept_bias": (gates * hidden,)}
    sizes = [(part, getattr(weights, part), shape) for part, shape in wanted.items()]
    sizes += [(part, state, (len(x), hidden)) for part, state in zip("hc", states, strict=False) if state is not None]
    for part, tensor, shape in sizes:
        if tuple(tensor.shape) != shape or tensor.dtype != x.dtype or tensor.device != x.device:
            raise UserError(f"{name}: {part} is {described(tensor)}; expected {x.dtype} {list(shape)} on {x.device}")
