"""TGN: attention over neighbours' memories."""

from __future__ import annotations

from chronoscale.strategies.streams.kinds.base import StreamKind, StreamShape
from chronoscale.strategies.streams.kinds.operations import Count, Work, passes, product, total


class TGN(StreamKind):
    """TGN, as planners count it: attention over neighbours' memories, which a GRU updates by the last mail (the message of an event): both
    ends' memories and, once applied, its encoded time."""

    name = "tgn"
    source = "Rossi et al.; ICML workshop on graph representation learning 2020"
    spatial = "attention"
    temporal = "gru"
    memory = True
    clock = True
    edges = True

    def mail(self, hidden: int, edge: int) -> int:
        return 2 * hidden + edge

    def parameters(self, shape: StreamShape) -> int:
        """Count the parameters of the recurrent cell that updates TGN's memory."""
        return 3 * shape.hidden * (shape.mail + shape.time + shape.hidden + 2)

    def update(self, shape: StreamShape, rows: Count) -> Work:
        gates = (product(rows, width, 3 * shape.hidden) for width in (shape.mail, shape.time, shape.hidden))
        return total(passes(rows * shape.time, 3), *gates, passes(rows * shape.hidden, 20))
