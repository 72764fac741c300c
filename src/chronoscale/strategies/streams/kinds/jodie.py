"""JODIE: memories of users and items, projected to the time that is asked for."""

from __future__ import annotations

from chronoscale.strategies.streams.kinds.base import StreamKind, StreamShape
from chronoscale.strategies.streams.kinds.operations import Count, Work, passes, product, total


class JODIE(StreamKind):
    """JODIE, as planners count it: two recurrent cells, of sources and of destinations, and a projection of memories to the time of a
    query."""

    name = "jodie"
    source = "Kumar, Zhang, Leskovec; KDD 2019"
    temporal = "rnn"
    memory = True
    edges = True

    def parameters(self, shape: StreamShape) -> int:
        """Count the parameters of both of JODIE's cells, which read the time as it is, and of the projection."""
        return 2 * shape.hidden * (shape.mail + 1 + shape.hidden + 1) + shape.hidden

    def update(self, shape: StreamShape, rows: Count) -> Work:
        cells = (product(rows, width, 2 * shape.hidden) for width in (shape.mail, shape.hidden))
        return total(*cells, passes(rows * shape.hidden, 13))

    def embed(self, shape: StreamShape, roots: Count) -> Work:
        """Count the work of projecting the memories of `roots` nodes to the time of a query."""
        return passes(roots * shape.hidden, 4)
