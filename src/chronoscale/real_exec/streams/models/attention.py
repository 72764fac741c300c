"""Attention of one query to a few slots: multi-head, scaled dot products, slots padded.

Where a query has its own slots, weights need not be applied to these: with x_k a slot, q W_K x_k = (W_K^T q) x_k, and the sum of
a_k W_V x_k is W_V applied to the sum of a_k x_k. So a query asks for a vector of the slot's width, a head, and weighs the slots as they
are: with K slots that is 1/K of the products, and no keys and values are stored.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from chronoscale.cuda_ext.operators.slots import Slots, attend
from chronoscale.real_exec.streams.models import edgewise
from chronoscale.real_exec.streams.models.clock import Clock
from chronoscale.real_exec.streams.tree import Hop
from chronoscale.strategies.streams.feeding import Operators


def project_query(query: Tensor, key: Tensor, heads: int) -> Tensor:
    """Return, for attention to neighbours without keys, what each head's query asks of a neighbour's row: W_K^T q, over the root of a
    head's width.

    query [T, H] and key weights [H, X] to [T, heads, X].
    """
    width = query.shape[1] // heads
    split = (query / width**0.5).view(-1, heads, width).transpose(0, 1)
    return torch.bmm(split, key.view(heads, width, -1)).transpose(0, 1)


def project_sums(sums: Tensor, value: Tensor) -> Tensor:
    """Return, for attention to neighbours without values, W_V applied to each head's weighted sum of neighbours' rows.

    sums [T, heads, X] and value weights [H, X] to [T, H]; each head has its part of the weights.
    """
    rows, heads, across = sums.shape
    split = torch.bmm(sums.transpose(0, 1), value.view(heads, -1, across).transpose(1, 2))
    return split.transpose(0, 1).reshape(rows, -1)


class TemporalAttention(nn.Module):
    """Temporal graph attention layer of TGAT and TGN: a node attends to its sampled earlier events (TGAT eqs. 6-8 and its FFN, TGN §3.1).

    q = W_Q [h_v, phi(0)];  k, v = W_K, W_V [h_u, e, phi(t - t_u)], without biases;  h' = W_2 relu(W_1 [attended, h_v] + b_1) + b_2

    A target without neighbours attends to nothing: zeros stand for `attended`. As in TGN, and in TGAT's code, [attended, h_v] holds the row
    of the layer below, where TGAT's text has the raw features; for the first layer that is the same. Heads are beside each other, without
    the output matrix of TGAT's code, which W_1 would follow at once, and there is no residual and no normalisation, which the code has and
    the text has not. TGL instead ends with one linear layer, relu and normalisation, and passes scores through a leaky relu.
    """

    def __init__(self, width: int, slot: int, time: int, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width + time, hidden, bias=False)
        self.key = nn.Linear(width + slot + time, hidden, bias=False)
        self.value = nn.Linear(width + slot + time, hidden, bias=False)
        self.merge = nn.Linear(hidden + width, hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, target: Tensor, source: Tensor, hop: Hop, clock: Clock, operators: Operators = "") -> Tensor:
        """Apply temporal attention to one level of a sampled neighbourhood: map its nodes' rows [T, D] to [T, hidden].

        source: rows of the next level's nodes [T', D], which `hop` joins to the targets. clock: encodes elapsed times. operators: '' for
        one fused kernel; "edges" or "nodes" edge by edge (`edgewise.attend`).
        """
        width, hidden = target.shape[1], self.out.in_features
        by_row, by_time = self.query.weight.split([width, self.query.in_features - width], 1)
        query = torch.addmm(by_time @ clock.zero(), target, by_row.t())
        queries = project_query(query, self.key.weight, self.heads)
        keep = None
        if self.training and self.dropout:
            keep = nn.functional.dropout(queries.new_ones(*queries.shape[:2], hop.slot.shape[1]), self.dropout)
        weight = None if hop.weight is None else hop.weight.log()[..., None]
        if weight is not None:  # one number more of a slot, behind its row, of which every head wants one
            queries = torch.cat([queries[..., :width], torch.ones_like(queries[..., :1]), queries[..., width:]], 2)
        beside = [part for part in (weight, hop.edge, clock.beside(hop.elapsed)) if part is not None]
        slots = Slots(hop.slot, hop.there, clock.reading(hop.elapsed), torch.cat(beside, 2) if beside else None)
        encoding = clock.frequency, clock.phase
        if operators:
            sums = edgewise.attend(queries, source, slots, hop.filled, encoding, keep, operators)
        else:
            sums = attend(queries, source.contiguous(), slots, encoding, keep)
        if weight is not None:
            sums = torch.cat([sums[..., :width], sums[..., width + 1 :]], 2)
        by_sum, by_own = self.merge.weight.split([hidden, width], 1)
        own = torch.addmm(self.merge.bias, target, by_own.t())
        return cast(Tensor, self.out(torch.addmm(own, project_sums(sums, self.value.weight), by_sum.t()).relu()))


def slot_softmax(scores: Tensor, there: Tensor) -> Tensor:
    """Return the softmax of attention scores [T, heads, K] over the neighbours that a node has; 0 for padding, and for nodes without any.

    there: bool [T, K], which of the K slots hold a neighbour.
    """
    empty = ~there[:, None]
    return scores.masked_fill(empty, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(empty, 0)
