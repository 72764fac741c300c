"""Command `train`. The experiment is read first, so that a wrong file is refused at once."""

from __future__ import annotations

from typing import Annotated

import typer

from chronoscale.harness.cli.experiment_argument import read_training
from chronoscale.harness.cli.options import RUNS, AsJson, File, Root, Seed
from chronoscale.harness.keys.elastic import Elastic
from chronoscale.harness.keys.families import FAMILIES
from chronoscale.interruption import at_once

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
    experiment = read_training(file, epochs, name, ranks, elastic, seed)
    with at_once():
        from chronoscale.harness.cli.sessions import training  # noqa: PLC0415 (a command's door)

    training.train(experiment, file, root, as_json, ranks is None and elastic is None, elastic)
