"""Scales of a comparison: the numbers of ranks that its strategies are compared on."""

from __future__ import annotations

from chronoscale.harness.keys.experiment import Experiment


def scales_of(experiment: Experiment) -> tuple[int, ...]:
    """Return the numbers of ranks that `chronoscale compare` trains on: the largest that execute, or, if they are virtual, all GPUs of the
    experiment, ascending."""
    return tuple(sorted(experiment.gpus)) if experiment.virtual else (max(experiment.ranks),)


def at_scale(experiment: Experiment, ranks: int) -> Experiment:
    """Return the experiment of `chronoscale compare` on one number of ranks alone."""
    return experiment.model_copy(update={"ranks": (ranks,)})


def scale_folder(experiment: Experiment) -> str:
    """Return the name of the piece of a run of `chronoscale compare` with schedules and times. experiment: with one number of ranks."""
    return f"{'scale' if experiment.virtual else 'ranks'}-{experiment.ranks[0]}"
