"""Probing: what a profile of a stream times, for the ways in which an experiment's strategies feed batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.execute.jobs import item
from chronoscale.harness.planners import planners
from chronoscale.harness.practice import Candidate, Probes
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.streams.data import loaded, stored
from chronoscale.harness.streams.experiment import StreamExperiment
from chronoscale.real_exec.streams.probe import Planner, stream_probes
from chronoscale.strategies.strategy import Strategy


def feeds(planner: Strategy) -> Planner:
    """A strategy that says how it feeds its batches, or what ranks share. Raises UserError for another."""
    if not isinstance(planner, Planner):
        raise UserError(
            f"strategy '{planner.name}': one on streams is a StreamStrategy or a SpreadStrategy, so that its batches can be executed"
        )
    return planner


class StreamProbes(Probes):
    """Some batches of an epoch on the stream itself, from its beginning to its end."""

    def __init__(self, experiment: StreamExperiment, run: Run, folder: Path) -> None:
        self._folder, self._data = folder, stored(experiment, run)
        self._work, self._planners = loaded(experiment, self._data), [feeds(planner) for planner in planners(experiment).values()]

    def of(self, ranks: int) -> Iterator[Candidate]:
        """As `Probes.of`."""
        for probe in stream_probes(self._work, self._planners, ranks):
            label = f"{probe.label}-x{ranks}"
            yield Candidate(label, probe.schedule, partial(item, self._folder, label, probe.schedule, self._data, probe.hyper))
