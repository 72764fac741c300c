"""Batch planners: the strategies of an experiment on event streams, typed as such, and what this machine does not let them do."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from chronoscale.batching.streams.sampling.thread_binding import choose_processors
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.real_exec.streams.probe import Planner
from chronoscale.strategies.strategy import Strategy


def batch_planner(strategy: Strategy) -> Planner:
    """Return a strategy for event streams typed as such, for `chronoscale profile`, which asks it how batches are fed, or what ranks share.

    Raises UserError for a strategy that is no StreamStrategy or SpreadStrategy.
    """
    if not isinstance(strategy, Planner):
        raise UserError(
            f"strategy '{strategy.name}': one on streams is a StreamStrategy or a SpreadStrategy, so that its batches can be executed"
        )
    return strategy


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
