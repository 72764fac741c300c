"""DySAT: attention over neighbours, then over windows of time."""

from __future__ import annotations

from chronoscale.strategies.streams.kinds.base import StreamKind, StreamShape
from chronoscale.strategies.streams.kinds.operations import Count, Work, pairwise, passes, product, total


class DySAT(StreamKind):
    """DySAT, as planners count it: a root's rows of all windows of time attend to each other, and the last one goes on."""

    name = "dysat"
    source = "Sankar et al.; WSDM 2020"
    spatial = "gat"
    temporal = "attention"
    windowed = True

    def parameters(self, shape: StreamShape) -> int:
        """Count the parameters of DySAT's attention over windows: a row for each window's place, four matrices and a bias."""
        return shape.windows * shape.hidden + 4 * shape.hidden * shape.hidden + shape.hidden

    def layer_parameters(self, shape: StreamShape, layer: int) -> int:
        return (shape.width(layer) + 2) * shape.hidden

    def layer(self, shape: StreamShape, layer: int, targets: Count, fanout: int, edges: Count | None = None) -> Work:
        hidden, heads, width = shape.hidden, shape.heads, shape.width(layer)
        slots = targets * fanout
        vectors = Work(4 * width * hidden, 2 * width * hidden)
        scores = total(product(slots, width, heads), product(targets, width, heads), product(targets, width, heads))
        answer = total(pairwise(targets, heads, fanout, width), product(targets, width, hidden))
        gathered = passes(slots * width, 2)
        return total(gathered, vectors, scores, answer, passes(targets * heads * (fanout + 1), 12), passes(targets * hidden, 2))

    def embed(self, shape: StreamShape, roots: Count) -> Work:
        hidden, windows = shape.hidden, shape.windows
        square, attended = product(roots, hidden, hidden), pairwise(roots, shape.heads, windows, hidden)
        return total(passes(roots * windows * hidden, 4), square, square, attended, attended, square, square, passes(roots * hidden, 8))
