"""Experiment that a command is given, read with the command's options before anything that plans or trains is imported."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from chronoscale import modules
from chronoscale.errors import UserError
from chronoscale.harness.cli.output import print_executed_files
from chronoscale.harness.keys.elastic import Elastic
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.keys.families import family_of
from chronoscale.strategies.plugins import anchor_file

DRAWN = (".svg", ".png")


def read_experiment(file: Path, seed: int | None, dry: bool = False, **changes: Any) -> Experiment:
    """Read the experiment file that a command is given; options of the command line replace its keys.

    seed, changes: of these options; None: the file's. dry: print which of its Python files were executed to read it, even where it is
    refused.
    """
    before = len(modules.executed())
    try:
        experiment = load(file, changes if seed is None else {**changes, "seed": seed})
    except UserError:
        print_executed_files(modules.executed()[before:] if dry else ())
        raise
    print_executed_files(modules.executed()[before:] if dry else ())
    return experiment


def read_timed(command: str, file: Path, seed: int | None, dry: bool) -> Experiment:
    """Read the experiment of a command that measures times. Raises UserError for virtual ranks, whose times mean nothing."""
    experiment = read_experiment(file, seed, dry)
    if experiment.virtual:
        raise UserError(f"virtual: true: {command} measures times, and those of virtual ranks mean nothing; leave it out, or `train`")
    return experiment


def read_training(
    file: Path, epochs: int | None, name: str | None, ranks: int | None, elastic: Elastic | None, seed: int | None
) -> Experiment:
    """Read the experiment of `train`, with its options: one strategy, on one number of ranks where they name one.

    Raises UserError for options that do not go together, and as `read_experiment`.
    """
    if name is None:
        with warnings.catch_warnings(action="ignore"):  # it is read again, and then warns
            experiment = read_experiment(file, None)
        name = experiment.strategies[-1] if "strategies" in experiment.model_fields_set else family_of(experiment).preferred
    if elastic is not None and ranks is not None:
        raise UserError("--elastic chooses the number of ranks, and so does --ranks; leave one out")
    name = anchor_file(name, Path())  # of the command line: relative to where it is given
    ranks = elastic.most if elastic is not None else ranks
    changes = {"epochs": epochs, "ranks": None if ranks is None else [ranks]}
    given: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
    return read_experiment(file, seed, **given, strategies=[name])


def read_comparison(
    file: Path,
    target: str | None,
    seeds: int | None,
    epochs: int | None,
    ranks: int | None,
    gpus: str | None,
    cluster: str | None,
    dask: str | None,
    seed: int | None,
) -> Experiment:
    """Read the experiment of `compare`, with its options. Raises UserError for options that do not go together, and as
    `read_experiment`."""
    if gpus is not None and ranks is not None:
        raise UserError("--gpus learns and simulates on so many GPUs, --ranks executes on so many ranks here; give one of them")
    changes: dict[str, Any] = {"epochs": epochs, "ranks": None if ranks is None else [ranks], "cluster": cluster}
    if gpus is not None:
        changes |= {"virtual": True, "gpus": _counts(gpus)}
    given = {key: value for key, value in changes.items() if value is not None}
    experiment = read_experiment(file, seed, **given)
    if cluster is not None and not experiment.virtual:
        raise UserError("--cluster is where --gpus are simulated; give --gpus, too")
    if dask is not None and not experiment.virtual:
        raise UserError("--dask simulates epochs on --gpus, and ranks are timed here; give --gpus, too")
    keys = experiment.compare.model_dump(mode="json", exclude_unset=True)
    keys |= {} if target is None else {"target": _target(target)}
    keys |= {} if seeds is None else {"seeds": seeds}
    return read_experiment(file, seed, **given, compare=keys)


def _target(text: str) -> dict[str, float] | str:
    """Read `--target`: a name, or score=number."""
    key, equals, value = text.partition("=")
    if not equals:
        return text
    try:
        return {key: float(value)}
    except ValueError:
        raise UserError(f"--target {text}: expected a number after =, such as mse=0.077") from None


def _counts(text: str) -> list[int]:
    """Read `--gpus`: numbers between commas or spaces."""
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise UserError(f"--gpus {text}: expected numbers, such as 1,8,64") from None


def read_advice(file: Path, objective: str | None, plot: Path | None, seed: int | None, dry_run: bool = False) -> Experiment:
    """Read the experiment of `advise`, with its options. Raises UserError for a drawing of no known format, and as `read_experiment`."""
    if plot is not None and plot.suffix not in DRAWN:
        raise UserError(f"--plot {plot}: expected a name that ends in {' or '.join(DRAWN)}")
    experiment = read_experiment(file, seed, dry_run)
    changes: dict[str, Any] = {}
    if objective is not None:
        changes = {"advise": experiment.advise.model_dump(mode="json", exclude_unset=True) | {"objective": objective}}
        experiment = read_experiment(file, seed, **changes)
    return experiment
