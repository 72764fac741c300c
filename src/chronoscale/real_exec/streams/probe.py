"""StreamProbe: some batches of an epoch, of several sizes, for a profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.workload import Hyper, Workload

PARTS = (0.0, 0.25, 0.5, 0.75, 1.0, 2.0)  # of the batch size: the last batch may be of any size, and some have twice the nodes of most
STEPS = 12  # training iterations a size, about: spread over the epoch, whose first batches have few neighbours


@dataclass(frozen=True, slots=True, eq=False)
class StreamProbe:
    """Short schedule on an event stream that ranks execute to time its operations for a cost model, with its hyper-parameters."""

    label: str
    schedule: Schedule
    hyper: Hyper


Planner = StreamStrategy | SpreadStrategy


def stream_probes(workload: Workload, strategies: Sequence[Planner], ranks: int) -> Iterator[StreamProbe]:
    """Yield short schedules on an event stream that time, for a cost model, every way to feed batches that `strategies` have, on all ranks
    at once.

    Each has batches of another size, some of an epoch's. Node memory misses the events that are left out, which makes no difference to the
    time.
    """
    planners: dict[str, Planner] = {}
    for planner in strategies:
        planners.setdefault(planner.way, planner)
    for planner in planners.values():
        for size in sorted({max(round(part * workload.hyper.batch_size), 1) for part in PARTS}):
            iterations = -(-workload.events.training // (size * ranks))
            events = replace(workload.hyper.events, every=max(iterations // STEPS, 1))
            hyper = replace(workload.hyper, batch_size=size, batches=0, events=events)
            yield StreamProbe(f"{planner.name}-b{size}", planner.plan(replace(workload, hyper=hyper), ranks, UNUSED), hyper)
