"""Unbound: what is said where a strategy is to bind the threads that sample, and this machine has no use for it."""

from __future__ import annotations

import warnings
from functools import cache

from chronoscale.datasets.streams.binding import unbound
from chronoscale.errors import ChronoscaleWarning, MachineError
from chronoscale.harness.planners import planners
from chronoscale.harness.streams.experiment import StreamExperiment
from chronoscale.harness.streams.probing import feeds
from chronoscale.real_exec.streams.crew import topology


def warn(experiment: StreamExperiment) -> None:
    """One line, once, before ranks start. Raises UserError for a topology that does not parse."""
    bound = [name for name, planner in planners(experiment).items() if feeds(planner).feeding.bound]
    if bound and experiment.threads > 1:
        _warn(", ".join(bound), experiment.topology or "")


@cache
def _warn(names: str, file: str) -> None:
    try:
        note = unbound(topology(file))
    except MachineError as error:
        note = f"sampling threads are not bound: {error}"
    if note:
        warnings.warn(f"{names}: {note}", ChronoscaleWarning, stacklevel=3)
