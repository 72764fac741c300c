"""JODIE: coupled recurrences (Kumar, Zhang, Leskovec: Predicting Dynamic Embedding Trajectory in Temporal Interaction Networks, 2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.models.base import StreamModel
from chronoscale.strategies.streams.models import StreamShape


class JODIE(StreamModel):
    """Model `jodie` of event streams: coupled recurrences of users and items, projected to the time of prediction (Kumar et al. 2019).

    u' = tanh(W_1 u + W_2 i + W_3 f + w_4 delta + b) (§3.1, eq. 1), one cell for sources (users), another for destinations (items); the
    embedding at a later time is (1 + w_p delta) * u' (§3.2, eq. 2).

    A node that is both updates by the cell of its last event's side. tanh and a bias as in the authors' code and TGL, where the text has a
    sigmoid. delta is standardised, as their code does it beforehand: (delta - mean) / deviation of the time between two events of a node,
    which `standardise` tells; without it delta is as it comes. Destinations are projected, too (as in TGN's and TGL's JODIE). Links are
    scored like any other model's: the paper predicts the item's embedding, of which a static one-hot part is half, and so can tell nothing
    of new nodes. No t-batches (§3.3): a batch sees the memory before it. Features, where there are some, are added to the memory before the
    projection.
    """

    standard: Tensor

    def __init__(self, shape: StreamShape, dropout: float) -> None:
        super().__init__(shape)
        hidden = shape.hidden
        self.given = nn.Linear(shape.mail, 2 * hidden)  # sources' cell, then destinations'
        self.kept = nn.Linear(hidden, 2 * hidden, bias=False)
        self.elapsed = nn.Parameter(torch.empty(2 * hidden))
        self.projection = nn.Parameter(torch.randn(hidden))  # as in the authors' code
        for part in (*self.given.parameters(), self.kept.weight, self.elapsed):
            nn.init.uniform_(part, -(hidden**-0.5), hidden**-0.5)  # as nn.RNNCell
        self.register_buffer("standard", torch.tensor([0.0, 1.0]))

    def standardise(self, mean: float, deviation: float) -> None:
        """Set mean and deviation of the time between two events of a node, by which elapsed times are standardised; a deviation of 0 is
        taken as 1.
        """
        self.standard.copy_(torch.tensor([mean, deviation or 1.0]))

    def _standardise(self, elapsed: Tensor) -> Tensor:
        mean, deviation = self.standard.unbind()
        return ((elapsed - mean) / deviation)[:, None]

    def update(self, pending: MemoryRows) -> Tensor:
        both = torch.addmm(self.given(pending.mail[:, 0]), pending.memory, self.kept.weight.t())
        both = torch.addcmul(both, self._standardise(pending.elapsed[:, 0]), self.elapsed)
        of_source, of_destination = both.chunk(2, 1)
        state = torch.where(pending.sent, of_source, of_destination).tanh()
        return torch.where(pending.there, state, pending.memory)

    def mail(self, own: Tensor, other: Tensor, edge: Tensor | None) -> Tensor:
        """Return the messages [s_other, e] that events leave for their nodes: the other node's memory beside the edge's features."""
        return other if edge is None or not self.shape.edge else torch.cat([other, edge], 1)

    def embed(self, top: list[Tensor], waited: Tensor) -> Tensor:
        return torch.addcmul(top[0], top[0] * self._standardise(waited), self.projection)
