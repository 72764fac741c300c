"""Unbound: what is said where a strategy is to bind the threads that sample, and they stay where the system puts them."""

from __future__ import annotations

import warnings

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.planners import planners
from chronoscale.harness.streams.experiment import StreamExperiment
from chronoscale.harness.streams.probing import feeds
from chronoscale.real_exec.streams.sampling_threads import choose_processors


def warn(experiment: StreamExperiment) -> None:
    """A line before ranks start, which are taken to be of this machine. Raises UserError for a topology that does not parse."""
    bound = [name for name, planner in planners(experiment).items() if feeds(planner).bound]
    if not bound:
        return
    where = [(ranks, rank) for ranks in experiment.ranks for rank in range(ranks)]
    notes = dict.fromkeys(choose_processors(experiment.topology or "", experiment.threads, rank, ranks)[1] for ranks, rank in where)
    if said := "; ".join(note for note in notes if note):
        warnings.warn(f"{', '.join(bound)}: {said}", ChronoscaleWarning, stacklevel=2)
