"""Pair logits: the decoder of the task `links`, from both ends of pairs of nodes to the score of an edge between them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.row_blocks import BLOCK_NUMBERS


def pair_logits(ends: Tensor, source: Tensor, destination: Tensor) -> Tensor:
    """Return the logit of an edge for each of P pairs of nodes, [P], for training and evaluation of the task `links`.

    ends [N, 2 H]: the readout of every node, its first half as the source of an edge, the other as its destination. source, destination:
    int32 [P]. A logit is the product of both halves over sqrt(H). Rows of pairs are gathered block by block, forward and backward, so that
    memory does not grow with P x H. On a GPU gradients of a node's pairs add up in no fixed order.
    """
    logits: Tensor = _PairLogits.apply(ends, source, destination)  # type: ignore[no-untyped-call]  # torch's own
    return logits


class _PairLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ends: Tensor, source: Tensor, destination: Tensor) -> Tensor:
        ctx.save_for_backward(ends, source, destination)
        leave, arrive = ends.chunk(2, 1)
        logits = ends.new_empty(len(source))
        for block in _blocks(ends, source):
            torch.sum(leave[source[block]] * arrive[destination[block]], 1, out=logits[block])
        return logits.mul_(_scale(ends))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        ends, source, destination = ctx.saved_tensors
        leave, arrive = ends.chunk(2, 1)
        into = torch.zeros_like(ends)
        into_leave, into_arrive = into.chunk(2, 1)
        each = (gradients[0] * _scale(ends))[:, None]
        for block in _blocks(ends, source):
            into_leave.index_add_(0, source[block], each[block] * arrive[destination[block]])
            into_arrive.index_add_(0, destination[block], each[block] * leave[source[block]])
        return into, None, None


def _blocks(ends: Tensor, source: Tensor) -> list[slice]:
    rows = max(BLOCK_NUMBERS // ends.shape[1], 1)
    return [slice(begin, begin + rows) for begin in range(0, len(source), rows)]


def _scale(ends: Tensor) -> float:
    return float((ends.shape[1] / 2) ** -0.5)
