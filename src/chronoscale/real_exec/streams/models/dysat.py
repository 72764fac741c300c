"""DySAT: attention over neighbours, then over time (Sankar et al.: DySAT: … via Self-Attention Networks, WSDM 2020)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from chronoscale.real_exec.streams.models.attention import project_query, project_sums, slot_softmax
from chronoscale.real_exec.streams.models.base import StreamModel
from chronoscale.real_exec.streams.tree import Hop, Tree
from chronoscale.strategies.streams.models import StreamShape


class StructuralAttention(nn.Module):
    """Layer of DySAT within one window of events: a node attends to its neighbours there (eq. 1), heads beside each other.

    z_v = elu(sum of a_uv W x_u), a_uv = softmax over u of leaky(l W x_u + r W x_v). A node is among its own neighbours (as in GAT, and in
    the authors' code, which has self-loops). The weight A_uv of a link is how often u was sampled. Weights are applied as in `attention`: l
    W and r W to rows, W to their weighted sum.
    """

    def __init__(self, width: int, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.dense = nn.Linear(width, hidden, bias=False)
        bound = (6 / (hidden // heads + 1)) ** 0.5  # Glorot, as in the GAT paper
        self.left = nn.Parameter(torch.empty(hidden).uniform_(-bound, bound))
        self.right = nn.Parameter(torch.empty(hidden).uniform_(-bound, bound))

    def forward(self, target: Tensor, source: Tensor, hop: Hop) -> Tensor:
        """Apply structural attention to one level of a sampled neighbourhood: map its nodes' rows [T, D] to [T, hidden].

        source: rows of the next level's nodes [T', D], which `hop` joins to the targets.
        """
        weight, slots = self.dense.weight, hop.slot.shape
        left, right = (_by_head(vector, weight, self.heads) for vector in (self.left, self.right))
        rows = source.index_select(0, hop.slot.flatten())
        near = torch.cat([(target @ left)[:, None], (rows @ left).view(*slots, self.heads)], 1)
        scores = nn.functional.leaky_relu(near + (target @ right)[:, None], 0.2).transpose(1, 2)
        there = torch.cat([hop.there.new_ones(slots[0], 1), hop.there], 1)
        weights = nn.functional.dropout(slot_softmax(scores, there), self.dropout, self.training)
        sums = torch.bmm(weights[:, :, 1:], rows.view(*slots, -1)) + weights[:, :, :1] * target[:, None]
        return nn.functional.elu(project_sums(sums, weight))


def _by_head(vector: Tensor, weight: Tensor, heads: int) -> Tensor:
    """Return the matrix that maps a row to each head's score: vector [H] and weight [H, D] to [D, heads]."""
    return torch.bmm(vector.view(heads, 1, -1), weight.view(heads, -1, weight.shape[1]))[:, 0].t()


class DySAT(StreamModel):
    """Model `dysat` of event streams: structural layers within each window of events, the same for all (§4.1), then attention over the
    windows (§4.2, eq. 2).

    x_w = z_w + p_w, p_w trained; v = attention of x's last window over all windows; the embedding is v + relu(W v + b) + x, W and b the
    position-wise feed-forward layer of §4.3 with the residuals of the authors' code. The paper masks later windows; here only the last one
    is read, which sees all. Scores are divided by the root of a head's width, not of the whole. Features of events are not read; those of
    nodes are given or drawn at random, where the paper has one-hot rows. TGL's DySAT is another model: attention by dot products with
    features of events within windows, weights for each window, and a recurrence over them.
    """

    def __init__(self, shape: StreamShape, dropout: float) -> None:
        super().__init__(shape)
        hidden, self.dropout = shape.hidden, dropout
        self.layers = nn.ModuleList(StructuralAttention(shape.width(layer), hidden, shape.heads, dropout) for layer in range(shape.layers))
        bound = (6 / (shape.windows + hidden)) ** 0.5
        self.position = nn.Parameter(torch.empty(shape.windows, hidden).uniform_(-bound, bound))
        self.query, self.key, self.value = (nn.Linear(hidden, hidden, bias=False) for _ in range(3))
        self.forth = nn.Linear(hidden, hidden)

    def layer(self, number: int, below: list[Tensor], tree: Tree) -> list[Tensor]:
        """Apply a structural layer within one window: rows [T_k, D] of the levels 0 … n of its tree to rows [T_k, H] of the levels 0 … n -
        1.
        """
        attend = cast(StructuralAttention, self.layers[number])
        return [attend(target, source, hop) for target, source, hop in zip(below[:-1], below[1:], tree.hops, strict=False)]

    def embed(self, top: list[Tensor], waited: Tensor) -> Tensor:
        """Return embeddings [R, H] of a batch's roots from their rows [R, H] in all windows, by attention over the windows."""
        x = torch.stack(top, 1) + self.position
        last = x[:, -1]
        queries = project_query(self.query(last), self.key.weight, self.shape.heads)
        weights = torch.bmm(queries, x.transpose(1, 2)).softmax(-1)
        weights = nn.functional.dropout(weights, self.dropout, self.training)
        attended = project_sums(torch.bmm(weights, x), self.value.weight)
        return cast(Tensor, attended + self.forth(attended).relu() + last)
