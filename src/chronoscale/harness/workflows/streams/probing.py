"""Probing: what a profile of an event stream times, for the ways in which an experiment's strategies feed batches."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.execute.jobs import make_item
from chronoscale.harness.workflows.workflow import ProbeCandidate, Probes
from chronoscale.real_exec.streams.probe import Planner, stream_probes
from chronoscale.real_exec.streams.sampling_threads import choose_processors
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


def batch_planner(strategy: Strategy) -> Planner:
    """Return a strategy for event streams typed as such, for `chronoscale profile`, which asks it how batches are fed, or what ranks share.

    Raises UserError for a strategy that is no StreamStrategy or SpreadStrategy.
    """
    if not isinstance(strategy, Planner):
        raise UserError(
            f"strategy '{strategy.name}': one on streams is a StreamStrategy or a SpreadStrategy, so that its batches can be executed"
        )
    return strategy


class StreamProbes(Probes):
    """Some batches of an experiment's own event stream, from its beginning to its end, for `chronoscale profile` to time."""

    def __init__(self, data: Path, work: Workload, strategies: Iterable[Strategy], folder: Path) -> None:
        self._data, self._work, self._folder = data, work, folder
        self._planners = [batch_planner(strategy) for strategy in strategies]

    def of(self, ranks: int) -> Iterator[ProbeCandidate]:
        for probe in stream_probes(self._work, self._planners, ranks):
            label = f"{probe.label}-x{ranks}"
            yield ProbeCandidate(label, probe.schedule, partial(make_item, self._folder, label, probe.schedule, self._data, probe.hyper))


def warn_of_unbound_threads(strategies: Iterable[Strategy], topology: str | None, threads: int, counts: Iterable[int]) -> None:
    """Warn, before a run, where a strategy is to bind its sampling threads to cores (FAST) and this machine does not let it.

    counts: numbers of ranks, all on this machine. threads: of a rank. topology: the experiment's file on which processors share caches;
    None: the system says. Raises UserError for one that does not parse.
    """
    binding = [strategy.name for strategy in strategies if batch_planner(strategy).bound]
    if not binding:
        return
    seats = [(ranks, rank) for ranks in counts for rank in range(ranks)]
    notes = dict.fromkeys(choose_processors(topology or "", threads, rank, ranks)[1] for ranks, rank in seats)
    if warning := "; ".join(note for note in notes if note):
        warnings.warn(f"{', '.join(binding)}: {warning}", ChronoscaleWarning, stacklevel=2)
