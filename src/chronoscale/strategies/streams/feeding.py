"""Feeding: how a strategy brings a batch's rows to the device; a schedule carries it, for whoever executes it."""

from __future__ import annotations

from dataclasses import dataclass

from chronoscale.datasets.streams.loading import Loading
from chronoscale.datasets.streams.neighbourhood import Sampling
from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.models import StreamShape
from chronoscale.strategies.streams.placements.table import PLACEMENTS
from chronoscale.strategies.streams.shapes import FP32, delivers
from chronoscale.strategies.workload import Hyper

SLOTS, UNIQUE, COMPRESSED = "slots", "unique", "compressed"


@dataclass(frozen=True, slots=True)
class Feeding:
    """merged: a batch has each node and edge, and each neighbour with its event, once (MemShare §4.3), else a row a slot, as TGL has it.
    compressed: a row crosses the bus once, and the device has it as often as it is sampled (FAST §4.2). placement: which rows lie on the
    device already, a name of PLACEMENTS, or nothing.

    What a model reads is the same, bit for bit, but for `merged`, which changes what is computed on.
    """

    merged: bool = False
    compressed: bool = False
    placement: str = ""

    def __str__(self) -> str:
        return " ".join([UNIQUE if self.merged else SLOTS, *[COMPRESSED] * self.compressed, *[self.placement] * bool(self.placement)])

    @classmethod
    def of(cls, schedule: Schedule) -> Feeding:
        """What `Schedule.feeding` says. Raises UserError for one that does not exist: the schedule is of another version."""
        words = schedule.feeding.split()
        found = cls(UNIQUE in words, COMPRESSED in words, next((word for word in words if word in PLACEMENTS), ""))
        if str(found) != schedule.feeding:
            valid = f"{SLOTS} or {UNIQUE}, then {COMPRESSED} or not, then one of {', '.join(PLACEMENTS)} or none"
            raise UserError(f"schedule '{schedule.name}': feeding '{schedule.feeding}' is unknown; valid: {valid}")
        return found

    def sampling(self, hyper: Hyper, shape: StreamShape) -> Sampling:
        """Of a model's layers; the last of too few fan-outs serves the layers beyond. Raises UserError where there is none."""
        if (shape.layers or shape.neighbours) and not hyper.fanout:
            raise UserError(f"training.fanout: model '{shape.name}' samples neighbours, and needs a number of them")
        fanouts = (*hyper.fanout, *hyper.fanout[-1:] * shape.layers)[: shape.layers]
        events = hyper.events
        sources = bool(shape.outputs) and not shape.memory  # they alone are classified; memory of both ends is updated
        return Sampling(fanouts, events.policy, events.windows, events.duration, self.merged, delivers(shape, hyper), sources)

    def loading(self, hyper: Hyper, shape: StreamShape) -> Loading:
        """Of a model's features."""
        node, edge = FP32 * shape.features, FP32 * shape.edge * bool(shape.layers)
        place, events = PLACEMENTS.get(self.placement), hyper.events
        return Loading(self.compressed, place, events.cache_ratio, events.presample, node, edge, bool(shape.memory))
