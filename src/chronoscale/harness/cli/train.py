"""Command `train`. The experiment is read first, so that a wrong file is refused at once."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from chronoscale.errors import UserError
from chronoscale.harness.cli.experiment_argument import read_experiment
from chronoscale.harness.cli.options import RUNS, AsJson, File, Root, Seed
from chronoscale.harness.keys.elastic import Elastic
from chronoscale.harness.keys.families import FAMILIES, family_of
from chronoscale.interruption import at_once
from chronoscale.strategies.plugins import anchor_file

_PREFERRED = " or ".join(family.preferred for family in FAMILIES.values())


def train(
    file: File,
    epochs: Annotated[int | None, typer.Option(help="Overrides the experiment's epochs.", show_default=False)] = None,
    name: Annotated[
        str | None, typer.Option("--strategy", help=f"By default the file's last, or {_PREFERRED}.", show_default=False)
    ] = None,
    ranks: Annotated[int | None, typer.Option(help="By default the most that the experiment names.", show_default=False)] = None,
    elastic: Annotated[
        Elastic | None,
        typer.Option(
            parser=Elastic.parse, metavar="MIN:MAX", help="Under torchrun: on as many ranks as processes are there.", show_default=False
        ),
    ] = None,
    root: Root = RUNS,
    as_json: AsJson = False,
    seed: Seed = None,
) -> None:
    """Train, resumable after any epoch. On snapshots in REAL's three stages: at once without reuse, then with difference maps, then as
    scheduled from what was measured; by one schedule, where the strategy spreads snapshots over ranks or a task's features change."""
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
    experiment = read_experiment(file, seed, **given, strategies=[name])
    with at_once():
        from chronoscale.harness.cli import training  # noqa: PLC0415 (a command's door)

    training.train(experiment, file, root, as_json, ranks is None, elastic)
