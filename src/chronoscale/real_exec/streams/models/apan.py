"""APAN: attention over mailboxes (Wang et al.: APAN: Asynchronous Propagation Attention Network …, SIGMOD 2021)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.models.attention import project_query, project_sums, slot_softmax
from chronoscale.real_exec.streams.models.base import StreamModel
from chronoscale.strategies.streams.models import StreamShape


class APAN(StreamModel):
    """Model `apan` of event streams: attention over mailboxes (Wang et al. 2021).

    The encoder: a node's last embedding attends to its mails, M + P with a trained row of P for each slot; then a skip connection, layer
    normalisation, and a two-layer perceptron make the new embedding, which is all that a node remembers. The propagator: mails go to both
    ends of an event and to their sampled neighbours, those of one batch to one node averaged, first in, first out; the tables see to that.

    z' = MLP(norm(attention(z, M + P) + z)). A mail is [z_i + z_j, e]: the paper adds e_ij, which has to be as wide as z for that. Every
    mail that is still in the box is read each time. A node without mail keeps its embedding, 0 at first. A row of P stands for a place in
    the order of mails, the last for the newest; the authors' code adds a time encoding, TGL has one in place of P. TGL ends with one linear
    layer and a relu. Features, where there are some, are added to the embedding.
    """

    def __init__(self, shape: StreamShape, dropout: float) -> None:
        super().__init__(shape)
        hidden, self.dropout = shape.hidden, dropout
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(shape.mail, hidden, bias=False)
        self.value = nn.Linear(shape.mail, hidden, bias=False)
        self.position = nn.Parameter(0.02 * torch.randn(shape.mails, shape.mail))
        self.norm = nn.LayerNorm(hidden)
        self.inner, self.outer = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)

    def update(self, pending: MemoryRows) -> Tensor:
        queries = project_query(self.query(pending.memory), self.key.weight, self.shape.heads)
        scores = torch.bmm(queries, pending.mail.transpose(1, 2)) + queries @ self.position.t()
        weights = nn.functional.dropout(slot_softmax(scores, pending.there), self.dropout, self.training)
        attended = project_sums(torch.bmm(weights, pending.mail) + weights @ self.position, self.value.weight)
        state = self.outer(self.inner(self.norm(attended + pending.memory)).relu())
        return torch.where(pending.there.any(1, keepdim=True), cast(Tensor, state), pending.memory)

    def mail(self, own: Tensor, other: Tensor, edge: Tensor | None) -> Tensor:
        """Return the mails [s_own + s_other, e] that events put into their nodes' mailboxes: sums of both memories beside the edge's
        features.
        """
        both = own + other
        return both if edge is None or not self.shape.edge else torch.cat([both, edge], 1)
