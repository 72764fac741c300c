"""StreamShape and StreamKind: the sizes of a model of event streams, and the parts that it is made of."""

from __future__ import annotations

from dataclasses import dataclass

from chronoscale.errors import UserError
from chronoscale.strategies.streams.kinds.operations import Count, Work, pairwise, passes, product, total
from chronoscale.strategies.workload import ModelChoice, ModelShape

PATCHES = "patches"  # what a model has over sampled neighbours that reads the sequences of both ends of a pair
DECIBELS = ("gaps", "both")  # clocks on which slots of attention have elapsed times in decibels beside their encoding


@dataclass(frozen=True, slots=True)
class StreamShape(ModelShape):
    """Sizes of a model of event streams, as planners, cost counts and reports read them.

    `layers` aggregate sampled neighbours: 0 for JODIE and APAN; `inputs`: width of what the first of them reads, or of the memory;
    `outputs`: classes of nodes, 0 for a model that predicts only links.
    """

    edge: int = 0  # features of events that are read
    time: int = 0  # width of the encoding of elapsed times
    clock: str = "linear"  # their scale
    memory: int = 0  # width of a node's memory, 0 for none
    mail: int = 0  # width of a mail
    mails: int = 0  # a node keeps
    windows: int = 1  # each has a tree of its own
    neighbours: bool = False  # mails go to sampled neighbours, too
    features: int = 0  # of nodes that are read
    slots: int = 0  # sampled neighbours of a root, of models with weights for each slot
    patch: int = 1  # places of a sequence that are read as one: a root and its slots

    @property
    def slot(self) -> int:
        """The numbers of a sampled neighbour beside its row and its encoded time: features of its event, and, on some clocks
        (DECIBELS), the time in decibels."""
        return self.edge + (self.clock in DECIBELS and self.spatial in ("attention", "mixer", PATCHES))

    @property
    def pairwise(self) -> bool:
        """Whether a node is embedded anew beside every node that it is scored with."""
        return self.spatial == PATCHES

    @property
    def patches(self) -> int:
        """The number of patches of a root's sequence, which is the root and its slots."""
        return -(-(self.slots + 1) // self.patch)

    def __post_init__(self) -> None:
        least = min(self.inputs, self.hidden, self.heads, self.windows), min(self.layers, self.outputs, self.parameters)
        if least[0] < 1 or least[1] < 0:
            raise UserError(f"model '{self.name}': widths, heads and windows must be at least 1, layers and outputs at least 0")


class StreamKind:
    """Kind of model on event streams (TGN, TGAT ...), as planners count it: the parts that it has, and the work and parameters that these
    add.

    name: what experiments call it; source: who published it. spatial: attention, gat, mixer, patches or none; temporal, what carries the
    past: gru, rnn, attention or none. memory: whether nodes have one; clock: whether elapsed times are encoded, and trains_clock, whether
    by trained frequencies; edges: whether features of events are read; by_slot: whether a layer has weights for each sampled neighbour's
    place; windowed: whether it looks at several windows of time, with a tree each; neighbours: whether mails (messages of events) go to
    sampled neighbours, too. own: whether a user's file defines it.
    """

    name: str
    source: str
    spatial = "none"
    temporal = "none"
    memory = False
    clock = False
    trains_clock = True
    edges = False
    by_slot = False
    windowed = False
    neighbours = False
    own = False

    @property
    def aggregates(self) -> bool:
        """Whether the model has layers over sampled neighbours."""
        return self.spatial != "none"

    @property
    def depths(self) -> tuple[int, ...]:
        """The numbers of layers over sampled neighbours that the model may have; 1 for a model without such layers, or with weights for
        each neighbour's place."""
        return (1, 2) if self.aggregates and not self.by_slot else (1,)

    @property
    def drops(self) -> bool:
        """Whether the model has dropout in training."""
        return self.attends

    @property
    def attends(self) -> bool:
        """Whether the model has heads of attention."""
        return "attention" in (self.spatial, self.temporal)

    def mail(self, hidden: int, edge: int) -> int:
        """Return how many values a mail has (the message of an event that updates a node's memory), for a memory of width `hidden` and
        `edge` features of events; 0 without memory."""
        return hidden + edge if self.memory else 0

    def mails(self, choice: ModelChoice) -> int:
        """Return how many mails (messages of events) a node's mailbox holds; 0 without memory."""
        return int(self.memory)

    def parameters(self, shape: StreamShape) -> int:
        """Count the parameters of the memory's update and of what follows the last layer; those that all models have are counted in
        `streams.models`."""
        return 0

    def layer_parameters(self, shape: StreamShape, layer: int) -> int:
        """Count the parameters of a layer over sampled neighbours, `layer` (0-based); by default, of temporal attention."""
        width, hidden = shape.width(layer), shape.hidden
        projections = (3 * width + 2 * shape.slot + 3 * shape.time) * hidden
        return projections + (hidden + width + 1) * hidden + hidden * hidden + hidden

    def layer(self, shape: StreamShape, layer: int, targets: Count, fanout: int, edges: Count | None = None) -> Work:
        """Count the work of a layer over sampled neighbours, `layer` (0-based), for `targets` nodes with `fanout` slots each; by default,
        of temporal attention. edges: slots that are filled, for attention edge by edge; None: it goes over all slots.
        """
        hidden, heads, width = shape.hidden, shape.heads, shape.width(layer)
        slots = targets * fanout
        across = width + shape.slot + shape.time
        query = total(product(targets, width, hidden), product(targets, hidden, across))
        if edges is None:
            pairs = total(*(pairwise(targets, heads, fanout, part) for part in (width, shape.slot, shape.time) if part))
            read = total(passes(slots * width, 2), passes(slots * shape.time, 4))
            attended = total(read, pairs, passes(slots * heads, 10), pairs)  # slots are scored, and then weighed
        else:
            each = edges * heads * across  # a row an edge is made, scored with its target's, weighed and summed
            rows = total(passes(edges * across, 4), passes(edges * shape.time, 2))
            attended = total(rows, Work(4 * each, 8 * each), passes(edges * heads, 6), passes(targets * heads * across))
        ending = total(product(targets, across, hidden), product(targets, hidden, hidden), product(targets, width, hidden))
        return total(query, attended, ending, product(targets, hidden, hidden), passes(targets * hidden, 4))

    def update(self, shape: StreamShape, rows: Count) -> Work:
        """Count the work of updating the memory of `rows` nodes (MEMORY_UPDATE in schedules), beside the reading of their features."""
        return Work()

    def embed(self, shape: StreamShape, roots: Count) -> Work:
        """Count the work on `roots` nodes after the last layer, in the forward pass."""
        return Work()

    def score(self, shape: StreamShape, pairs: Count, sources: Count) -> Work:
        """Count the work of scoring `pairs` candidate links that start from `sources` different nodes."""
        hidden = shape.hidden
        ends = total(product(sources, hidden, hidden), product(pairs, hidden, hidden))
        return total(ends, passes(pairs * hidden, 4), product(pairs, hidden, 1))
