"""SignalProbe: short epochs on the signal itself, in batches of several sizes, that a profile times."""

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
    """A schedule to be timed, its hyper-parameters, and what prepares it: probes of one `feed` share its preparation."""

    label: str
    feed: str
    schedule: Schedule
    prepare: Schedule
    hyper: Hyper


def signal_probes(workload: Workload, strategies: Sequence[SignalStrategy], ranks: int) -> Iterator[SignalProbe]:
    """Of every way to feed batches that `strategies` have, on all ranks at once."""
    ways: dict[SignalFeeding, SignalStrategy] = {}
    for one in strategies:
        ways.setdefault(one.feeding, one)
    for one in ways.values():
        prepare = one.prepare(workload, ranks, UNUSED)
        for size in sorted({max(round(part * workload.hyper.batch_size), 1) for part in PARTS}):
            hyper = replace(workload.hyper, batch_size=size, batches=STEPS)
            schedule = one.plan(replace(workload, hyper=hyper), ranks, UNUSED)
            yield SignalProbe(f"{one.name}-b{size}", one.name, schedule, prepare, hyper)
