"""Probing: what a profile of an event stream times, for the ways in which an experiment's strategies feed batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from chronoscale.harness.execute.jobs import make_item
from chronoscale.harness.workflows.execution import ProbeCandidate, Probes
from chronoscale.harness.workflows.streams.batch_planners import batch_planner
from chronoscale.real_exec.streams.probe import stream_probes
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


class StreamProbes(Probes):
    """Some batches of an experiment's own event stream, from its beginning to its end, for `chronoscale profile` to time."""

    def __init__(self, data: Path, work: Workload, strategies: Iterable[Strategy], folder: Path) -> None:
        self._data, self._work, self._folder = data, work, folder
        self._planners = [batch_planner(strategy) for strategy in strategies]

    def of(self, ranks: int) -> Iterator[ProbeCandidate]:
        for probe in stream_probes(self._work, self._planners, ranks):
            label = f"{probe.label}-x{ranks}"
            yield ProbeCandidate(label, probe.schedule, partial(make_item, self._folder, label, probe.schedule, self._data, probe.hyper))
