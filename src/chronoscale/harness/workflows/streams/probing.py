"""Probing: what a profile of an event stream times, for the ways in which an experiment's strategies feed batches."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.execute.jobs import make_item
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.keys.streams import StreamExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.streams.data import store_events, stored_workload
from chronoscale.harness.workflows.workflow import ProbeCandidate, Probes
from chronoscale.real_exec.streams.crew import place
from chronoscale.real_exec.streams.probe import Planner, stream_probes
from chronoscale.strategies.strategy import Strategy


def batch_planner(strategy: Strategy) -> Planner:
    """Return the strategy as one that says how it feeds its batches, or what ranks share. Raises UserError for another."""
    if not isinstance(strategy, Planner):
        raise UserError(
            f"strategy '{strategy.name}': one on streams is a StreamStrategy or a SpreadStrategy, so that its batches can be executed"
        )
    return strategy


class StreamProbes(Probes):
    """Some batches of an epoch on the event stream itself, from its beginning to its end."""

    def __init__(self, experiment: StreamExperiment, run: Run, folder: Path) -> None:
        self._folder = folder
        self._data = store_events(experiment, run)
        self._work = stored_workload(experiment, self._data)
        self._planners = [batch_planner(planner) for planner in planners(experiment).values()]

    def of(self, ranks: int) -> Iterator[ProbeCandidate]:
        for probe in stream_probes(self._work, self._planners, ranks):
            label = f"{probe.label}-x{ranks}"
            yield ProbeCandidate(label, probe.schedule, partial(make_item, self._folder, label, probe.schedule, self._data, probe.hyper))


def warn_of_unbound_threads(experiment: StreamExperiment) -> None:
    """Warn where a strategy is to bind the threads that sample, and they stay where the system puts them.

    Ranks are taken to be of this machine. Raises UserError for a topology that does not parse.
    """
    binding = [name for name, planner in planners(experiment).items() if batch_planner(planner).bound]
    if not binding:
        return
    seats = [(ranks, rank) for ranks in experiment.ranks for rank in range(ranks)]
    notes = dict.fromkeys(place(experiment.topology or "", experiment.threads, rank, ranks)[1] for ranks, rank in seats)
    if warning := "; ".join(note for note in notes if note):
        warnings.warn(f"{', '.join(binding)}: {warning}", ChronoscaleWarning, stacklevel=2)
