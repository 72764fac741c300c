"""SignalProbe: short epochs on the signal itself, in batches of several sizes, for a profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.feeding import SignalFeeding
from chronoscale.strategies.signals.strategy import SignalStrategy
from chronoscale.strategies.workload import Hyper, Workload

PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the batch size that will be asked for: the last batch of an epoch may be of any size
STEPS = 4  # optimiser steps, and as many validation batches, a size


@dataclass(frozen=True, slots=True, eq=False)
class SignalProbe:
    """Short schedule on a signal that ranks execute to time its operations for a cost model, with its hyper-parameters and its preparation.

    feed: the strategy that feeds the batches; probes of one `feed` share the preparation.
    """

    label: str
    feed: str
    schedule: Schedule
    prepare: Schedule
    hyper: Hyper


def signal_probes(workload: Workload, strategies: Sequence[SignalStrategy], ranks: int) -> Iterator[SignalProbe]:
    """Yield short schedules on a signal that time, for a cost model, every way to feed batches that `strategies` have, on all ranks at
    once.

    Each has batches of another size, up to the workload's.
    """
    planners: dict[SignalFeeding, SignalStrategy] = {}
    for planner in strategies:
        planners.setdefault(planner.feeding, planner)
    for planner in planners.values():
        prepare = planner.prepare(workload, ranks, UNUSED)
        for size in sorted({max(round(part * workload.hyper.batch_size), 1) for part in PARTS}):
            hyper = replace(workload.hyper, batch_size=size, batches=STEPS)
            schedule = planner.plan(replace(workload, hyper=hyper), ranks, UNUSED)
            yield SignalProbe(f"{planner.name}-b{size}", planner.name, schedule, prepare, hyper)
