"""Slots: what stands in the sampled slots of targets, weighed by what their heads ask for. Forward and backward by hand: of all that a
layer does this moves most, and autograd would move it twice."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.real_exec.streams.tree import Hop


def shares(scores: Tensor, there: Tensor) -> Tensor:
    """Softmax over the slots that are there: scores [T, heads, K], there bool [T, K] to weights of the scores' shape, 0 where none is.

    A target without any slot has zeros.
    """
    empty = ~there[:, None]
    return scores.masked_fill(empty, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(empty, 0)


def weighed(wanted: Tensor, source: Tensor, hop: Hop, frequency: Tensor, phase: Tensor, keep: Tensor | None = None) -> Tensor:
    """sum over k of a_k x_k with a = softmax of wanted x_k over the slots that are there: [T, heads, X], as `wanted`.

    x_k = [source row, features of the event, cos(frequency elapsed + phase)]; source [T', D], X = D + De + width of the encoding. keep
    [T, heads, K] multiplies weights (dropout). Events have no gradient.
    """
    made = _Weighed.apply(wanted, source, hop.slot, hop.there, hop.elapsed, hop.edge, frequency, phase, keep)  # type: ignore[no-untyped-call]
    return cast(Tensor, made)


def _sums(left: Tensor, parts: list[Tensor]) -> Tensor:
    """left [T, n, K] with parts [T, K, X_i] beside each other: [T, n, X]."""
    return torch.cat([torch.bmm(left, part) for part in parts], 2)


def _products(left: Tensor, parts: list[Tensor]) -> Tensor:
    """left [T, n, X] with parts [T, K, X_i] beside each other: [T, n, K]."""
    total: Tensor | None = None
    for part, own in zip(parts, left.split([part.shape[2] for part in parts], 2), strict=True):
        turned = part.transpose(1, 2)
        total = torch.bmm(own, turned) if total is None else torch.baddbmm(total, own, turned)
    assert total is not None
    return total


class _Weighed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        wanted: Tensor,
        source: Tensor,
        slot: Tensor,
        there: Tensor,
        elapsed: Tensor,
        edge: Tensor | None,
        frequency: Tensor,
        phase: Tensor,
        keep: Tensor | None,
    ) -> Tensor:
        rows = source.index_select(0, slot.flatten()).view(*slot.shape, source.shape[1])
        angle = torch.addcmul(phase, elapsed[..., None], frequency)
        parts = [rows, angle.cos()] if edge is None else [rows, edge, angle.cos()]
        weights = shares(_products(wanted, parts), there)
        ctx.save_for_backward(wanted, slot, elapsed, angle, weights, keep, *parts)
        ctx.sources = len(source)
        return _sums(weights if keep is None else weights * keep, parts)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        wanted, slot, elapsed, angle, weights, keep, *parts = ctx.saved_tensors
        (gradient,) = gradients
        to_weights, kept = _products(gradient, parts), weights
        if keep is not None:
            to_weights, kept = to_weights * keep, weights * keep
        to_scores = weights * (to_weights - (weights * to_weights).sum(2, keepdim=True))
        # A slot is met twice, where it is scored and where it is summed: one product for both.
        left, right = torch.cat([to_scores, kept], 1).transpose(1, 2), torch.cat([wanted, gradient], 1)
        to_source, width = None, parts[0].shape[2]
        if ctx.needs_input_grad[1]:
            to_rows = torch.bmm(left, right[:, :, :width])
            to_source = wanted.new_zeros(ctx.sources, width).index_add_(0, slot.flatten(), to_rows.view(-1, width))
        to_angle = torch.bmm(left, right[:, :, -angle.shape[2] :]).mul_(angle.sin()).view(-1, angle.shape[2])
        to_frequency, to_phase = -(elapsed.to(to_angle.dtype).view(1, -1) @ to_angle)[0], -to_angle.sum(0)
        return _sums(to_scores, parts), to_source, None, None, None, None, to_frequency, to_phase, None
