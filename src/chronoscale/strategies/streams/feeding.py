"""Feeding: how a strategy brings a batch's rows to the device; a schedule carries it, for whoever executes it."""

from __future__ import annotations

from enum import StrEnum

from chronoscale.datasets.streams.neighbourhood import Sampling
from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.models import StreamShape
from chronoscale.strategies.streams.shapes import delivers
from chronoscale.strategies.workload import Hyper


class Feeding(StrEnum):
    """slots: a row for every slot, also where a node or edge is sampled again, as TGL does; unique: each row once (MemShare §4.3)."""

    SLOTS = "slots"
    UNIQUE = "unique"

    @classmethod
    def of(cls, schedule: Schedule) -> Feeding:
        """What `Schedule.feeding` says. Raises UserError for one that does not exist: the schedule is of another version."""
        if schedule.feeding not in tuple(cls):
            raise UserError(f"schedule '{schedule.name}': feeding '{schedule.feeding}' is unknown; valid: {', '.join(cls)}")
        return cls(schedule.feeding)

    def sampling(self, hyper: Hyper, shape: StreamShape) -> Sampling:
        """Of a model's layers; the last of too few fan-outs serves the layers beyond. Raises UserError where there is none."""
        if (shape.layers or shape.neighbours) and not hyper.fanout:
            raise UserError(f"training.fanout: model '{shape.name}' samples neighbours, and needs a number of them")
        fanouts = (*hyper.fanout, *hyper.fanout[-1:] * shape.layers)[: shape.layers]
        events = hyper.events
        unique, to = self is Feeding.UNIQUE, delivers(shape, hyper)
        sources = bool(shape.outputs) and not shape.memory  # they alone are classified; memory of both ends is updated
        return Sampling(fanouts, events.policy, events.windows, events.duration, unique, to, sources)
