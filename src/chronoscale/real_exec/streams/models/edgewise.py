"""Attention to slots, edge by edge: a row an edge is scored, weighed and summed to its target, as TGL and FAST have it."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.cuda_ext.operators.slots import Encoding, Slots
from chronoscale.strategies.streams.feeding import Operators


def attend(
    queries: Tensor, source: Tensor, slots: Slots, filled: int, encoding: Encoding, keep: Tensor | None, operators: Operators
) -> Tensor:
    """Attend to sampled neighbours edge by edge, as TGL and FAST do: return each head's weighted sum of neighbours' rows, [T, heads, X].

    It computes what `cuda_ext.operators.slots.attend` does by one kernel. queries: [T, heads, X], of the width of a neighbour's row with
    its features and time encoding. source: rows that `slots` pick from. filled: how many slots hold a neighbour. encoding: of elapsed
    times. keep: dropout's factors [T, heads, K] or None. operators: "edges", a thread an edge where rows are summed (FAST, section 4.3);
    "nodes", a node's edges one after another.
    """
    targets, heads, across = queries.shape
    fanout = slots.mask.shape[1]
    flat = torch.nonzero_static(slots.mask.flatten(), size=filled)[:, 0]
    target = flat // fanout
    indptr = torch.zeros(targets + 1, dtype=torch.int64, device=queries.device)
    torch.cumsum(slots.mask.sum(1), 0, out=indptr[1:])
    rows = [source.index_select(0, slots.slot.flatten()[flat])]
    if slots.edge is not None:
        rows.append(slots.edge.flatten(0, 1).index_select(0, flat))
    if slots.elapsed is not None:
        rows.append(encode(slots.elapsed.flatten()[flat], *encoding))
    beside = torch.cat(rows, 1)[:, None]
    scores = (queries.index_select(0, target) * beside).sum(2)
    shares = edge_softmax(scores, indptr, longest=fanout)
    if keep is not None:
        shares = shares * keep.transpose(1, 2).flatten(0, 1).index_select(0, flat)
    messages = (shares[:, :, None] * beside).view(filled, heads * across)
    if operators == "edges":
        sums = aggregate_edges(messages, target, targets, ascending=True)
    else:
        each = torch.arange(filled, dtype=torch.int32, device=queries.device)
        sums = aggregate(CSR(indptr, each, None, filled).mark_checked(), messages)
    return sums.view(targets, heads, across)
