"""Train."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from chronoscale.harness import publish
from chronoscale.harness.cell import Cell
from chronoscale.harness.cli.options import RUNS, AsJson, File, Root, Seed
from chronoscale.harness.cli.output import PARTS, say, stage
from chronoscale.harness.cli.session import begin, end
from chronoscale.harness.experiments import load
from chronoscale.harness.families import FAMILIES, family_of
from chronoscale.harness.trained import FOLDER, control, idle, period
from chronoscale.harness.training import train as run_training
from chronoscale.strategies.outside import anchored

_PREFERRED = " or ".join(family.preferred for family in FAMILIES.values())


def train(
    file: File,
    epochs: Annotated[int | None, typer.Option(help="Overrides the experiment's epochs.", show_default=False)] = None,
    name: Annotated[
        str | None, typer.Option("--strategy", help=f"By default the file's last, or {_PREFERRED}.", show_default=False)
    ] = None,
    ranks: Annotated[int | None, typer.Option(help="By default the most that the experiment names.", show_default=False)] = None,
    root: Root = RUNS,
    as_json: AsJson = False,
    seed: Seed = None,
) -> None:
    """Train, resumable after any epoch. On snapshots in REAL's three stages: at once without reuse, then with difference maps, then as
    scheduled from what was measured; by one schedule, where the strategy spreads snapshots over ranks or a task's features change."""
    if name is None:
        with warnings.catch_warnings(action="ignore"):  # it is read again, and then warns
            asked = load(file)
        name = asked.strategies[-1] if "strategies" in asked.model_fields_set else family_of(asked).preferred
    name = anchored(name, Path())  # of the command line: relative to where it is given
    changes = {"epochs": epochs, "ranks": None if ranks is None else [ranks]}
    given: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
    experiment, run = begin("train", file, root, seed, **given, strategies=[name])
    with stage("training"), run.watched():
        done = run_training(experiment, run)
    table = done.table()
    table = table.assign(
        epochs=pd.Series([Cell([int(end) for end in text.split("..") if end.isdigit()], text) for text in table["epochs"]], dtype=object)
    )
    title = f"trained {len(done.epochs)} epochs on {done.ranks} rank{'s' * (done.ranks != 1)}"
    said = set(control(run.folder / FOLDER).notes)  # by the control plane, when it made them
    table = table.assign(idle_ranks=sum(idle(run).values()))
    parts = publish.parts(run)
    if as_json:
        table = publish.beside(table, parts)
    else:
        say(parts, PARTS, as_json=False)
    if as_json and done.tested:
        last = [*[None] * (len(table) - 1), done.compared().to_dict("records")]
        table = table.assign(test=pd.Series(last, dtype=object))
    elif done.tested:
        say(done.compared(), f"test period, {period(run.folder / FOLDER)}", as_json=False)
    end(run, table, title, as_json, [note for note in done.notes if note not in said])
