"""StreamProbe: some batches of an epoch, of several sizes, that a profile times."""

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
    """A schedule to be timed, and its hyper-parameters."""

    label: str
    schedule: Schedule
    hyper: Hyper


Planner = StreamStrategy | SpreadStrategy


def stream_probes(workload: Workload, strategies: Sequence[Planner], ranks: int) -> Iterator[StreamProbe]:
    """Of every way to feed batches that `strategies` have, on all ranks at once; memory misses the events that are left out, at no
    difference to the time."""
    ways: dict[str, Planner] = {}
    for one in strategies:
        ways.setdefault(one.way, one)
    for one in ways.values():
        for size in sorted({max(round(part * workload.hyper.batch_size), 1) for part in PARTS}):
            iterations = -(-workload.events.training // (size * ranks))
            events = replace(workload.hyper.events, every=max(iterations // STEPS, 1))
            hyper = replace(workload.hyper, batch_size=size, batches=0, events=events)
            yield StreamProbe(f"{one.name}-b{size}", one.plan(replace(workload, hyper=hyper), ranks, UNUSED), hyper)
