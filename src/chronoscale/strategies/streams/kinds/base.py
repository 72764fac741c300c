"""StreamKind: what a model of event streams is made of, and what it has and does beyond others of the same parts."""

from __future__ import annotations

from chronoscale.strategies.streams.kinds.shape import StreamShape
from chronoscale.strategies.streams.operations import Count, Work
from chronoscale.strategies.workload import ModelChoice


class StreamKind:
    """A subclass says which parts it has.

    name: what experiments call it; source: who published it. spatial: attention, gat or none; temporal, what carries the past: gru, rnn,
    attention or none. memory: whether nodes have one; clock: whether elapsed times are encoded; edges: whether features of events are
    read; windowed: whether it looks at several windows of time, with a tree each; neighbours: whether mails go to sampled neighbours, too.
    """

    name: str
    source: str
    spatial = "none"
    temporal = "none"
    memory = False
    clock = False
    edges = False
    windowed = False
    neighbours = False

    @property
    def aggregates(self) -> bool:
        """Whether it has layers over sampled neighbours."""
        return self.spatial != "none"

    @property
    def attends(self) -> bool:
        """Whether there are heads of attention."""
        return "attention" in (self.spatial, self.temporal)

    def mail(self, hidden: int, edge: int) -> int:
        """Width of a mail, of a memory of width `hidden` and `edge` features of events; 0 without memory."""
        return hidden + edge if self.memory else 0

    def mails(self, choice: ModelChoice) -> int:
        """That a node keeps, of a model with this choice; 0 without memory."""
        return int(self.memory)

    def parameters(self, shape: StreamShape) -> int:
        """Trained values of MEMORY_UPDATE and of what follows the last layer; `models` counts what all have."""
        return 0

    def update(self, shape: StreamShape, rows: Count) -> Work:
        """MEMORY_UPDATE of `rows` nodes, beside the reading of their features."""
        return Work()

    def embed(self, shape: StreamShape, roots: Count) -> Work:
        """What is done to `roots` rows after the last layer."""
        return Work()
