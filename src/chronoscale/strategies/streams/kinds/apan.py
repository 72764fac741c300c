"""APAN: attention over the mails of a node's mailbox, which its neighbours' events send, too."""

from __future__ import annotations

from chronoscale.strategies.streams.kinds.base import StreamKind, StreamShape
from chronoscale.strategies.streams.kinds.operations import Count, Work, pairwise, passes, product, total
from chronoscale.strategies.workload import ModelChoice


class APAN(StreamKind):
    """APAN, as planners count it: a node's memory is its last embedding; its mailbox has several mails (messages of events), over which it
    attends."""

    name = "apan"
    source = "Wang et al.; SIGMOD 2021"
    temporal = "attention"
    memory = True
    edges = True
    neighbours = True

    def mails(self, choice: ModelChoice) -> int:
        return choice.mails

    def parameters(self, shape: StreamShape) -> int:
        """Count the parameters of APAN's memory update: query, key and value, a row for each mail's place, the normalisation, and a
        perceptron of two layers."""
        hidden, square = shape.hidden, shape.hidden * shape.hidden
        return square + 2 * shape.mail * hidden + shape.mails * shape.mail + 2 * hidden + 2 * (square + hidden)

    def update(self, shape: StreamShape, rows: Count) -> Work:
        hidden = shape.hidden
        mail = shape.mail
        heads = shape.heads
        slots = shape.mails
        query = total(product(rows, hidden, hidden), product(rows, hidden, mail))
        attended = total(pairwise(rows, heads, slots, mail), product(rows * heads, mail, slots))
        answer = total(pairwise(rows, heads, slots, mail), product(rows * heads, slots, mail), product(rows, mail, hidden))
        ending = total(product(rows, hidden, hidden), product(rows, hidden, hidden), passes(rows * hidden, 10))
        return total(query, attended, answer, ending)
