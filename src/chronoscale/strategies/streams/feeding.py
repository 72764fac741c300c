"""StreamFeeding: how a strategy brings a batch's rows to the device, as `Schedule.feeding` carries it to whoever executes a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from chronoscale.batching.streams.caching.loading import Loading
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.models import FP32, StreamShape, delivers
from chronoscale.strategies.streams.placements import PLACEMENTS
from chronoscale.strategies.workload import Hyper

SLOTS = "slots"
UNIQUE = "unique"
COMPRESSED = "compressed"
BOUND = "bound"
PUBLISHED = "published"
Operators = Literal["", "edges", "nodes"]
OPERATORS: tuple[Operators, ...] = get_args(Operators)


@dataclass(frozen=True, slots=True)
class StreamFeeding:
    """How a strategy on an event stream brings a batch's rows to the device; a schedule carries it as text (`Schedule.feeding`) to the
    ranks that execute it.

    merged: a batch has each node and edge, and each neighbour with its event, once (MemShare §4.3), else a row for each sampled slot, as
    TGL has it. compressed: a row crosses the bus once, and the device has it as often as it is sampled (FAST §4.2). placement: which rows
    are resident on the device, a name of PLACEMENTS, or none. operators of layers, where a model has attention (TGAT, TGN): ours, in one
    pass over a target's slots; or edge by edge, summed with a thread an edge (edges, FAST §4.3) or node after node (nodes). bound: threads
    that sample are bound to processors (FAST §4.4). published: as FAST's public code (github.com/NoneBone/FAST) where that differs:
    neighbours of a node only by the events that it sends, training's negatives from all nodes, and resident rows chosen by the batches of
    the first half of training.

    A model reads the same values, bit for bit, but for `merged`, which changes what is computed on, and `published`, which changes what is
    sampled.
    """

    merged: bool = False
    compressed: bool = False
    placement: str = ""
    operators: Operators = ""
    bound: bool = False
    published: bool = False

    def __str__(self) -> str:
        words = (UNIQUE if self.merged else SLOTS, COMPRESSED * self.compressed, self.placement, self.operators, BOUND * self.bound)
        return " ".join(word for word in (*words, PUBLISHED * self.published) if word)

    @property
    def reads(self) -> frozenset[str]:
        """Keys of an experiment file that this feeding reads and others do not: of what is resident on the device, and of bound threads."""
        resident = ("training.cache_ratio", "training.presample") * bool(self.placement)
        return frozenset((*resident, *("training.presample", "topology") * self.bound))

    @classmethod
    def of(cls, schedule: Schedule) -> StreamFeeding:
        """Return how a schedule on an event stream feeds its batches, read from `Schedule.feeding`. Raises UserError for unknown text: the
        schedule is of another version."""
        words = schedule.feeding.split()
        placement = next((word for word in words if word in PLACEMENTS), "")
        operators: Operators = next((word for word in OPERATORS if word in words), "")
        feeding = cls(UNIQUE in words, COMPRESSED in words, placement, operators, BOUND in words, PUBLISHED in words)
        if str(feeding) != schedule.feeding:
            optional = (COMPRESSED, " or ".join(PLACEMENTS), " or ".join(OPERATORS[1:]), BOUND, PUBLISHED)
            valid = f"{SLOTS} or {UNIQUE}, then, or not, {', '.join(optional)}"
            raise UserError(f"schedule '{schedule.name}': feeding '{schedule.feeding}' is unknown; valid: {valid}")
        return feeding

    def sampling(self, hyper: Hyper, shape: StreamShape) -> Sampling:
        """Return how neighbours are sampled for a model under this feeding; the last of too few fan-outs serves the layers beyond. Raises
        UserError where there is none."""
        if (shape.layers or shape.neighbours) and not hyper.fanout:
            raise UserError(f"training.fanout: model '{shape.name}' samples neighbours, and needs a number of them")
        fanouts = (*hyper.fanout, *hyper.fanout[-1:] * shape.layers)[: shape.layers]
        events = hyper.events
        sources = bool(shape.outputs) and not shape.memory  # they alone are classified; memory of both ends is updated
        if self.published and events.evaluation.hidden:
            raise UserError("training.hidden_nodes: fast-published draws negatives from all nodes, and training would see the hidden ones")
        own = self.merged, delivers(shape, hyper), sources
        return Sampling(fanouts, events.policy, events.windows, events.duration, *own, outgoing=self.published, all_nodes=self.published)

    def loading(self, hyper: Hyper, shape: StreamShape) -> Loading:
        """Return how a model's features are loaded under this feeding: compressed or not, what is cached on the device, and the bytes of
        rows."""
        node, edge = FP32 * shape.features, FP32 * shape.edge * bool(shape.layers)
        events = hyper.events
        place = PLACEMENTS.get(self.placement) if events.cache_ratio else None  # without room nothing has a place
        rows = node, edge, bool(shape.memory)
        return Loading(self.compressed, place, events.cache_ratio, events.presample, *rows, hyper.validate, self.published)
