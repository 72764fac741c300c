"""Advise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from chronoscale.errors import UserError
from chronoscale.harness.advice import shown
from chronoscale.harness.advice.advise import FIRST
from chronoscale.harness.advice.advise import advise as run_advice
from chronoscale.harness.advice.candidates import candidates
from chronoscale.harness.advice.outcome import choices
from chronoscale.harness.cli.options import RUNS, AsJson, Dry, File, Root, Seed
from chronoscale.harness.cli.output import err, say, stage
from chronoscale.harness.cli.session import asked, begin
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.runs import write_text
from chronoscale.reports.drawing import Drawing

DRAWN = (".svg", ".png")


def advise(
    file: File,
    objective: Annotated[
        str | None, typer.Option(help="time, memory, gpu-hours or cost; by default the file's.", show_default=False)
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default as cores and memory allow.", show_default=False)] = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Of a Dask scheduler, instead.", show_default=False)] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the Pareto front there, .svg or .png.", show_default=False)] = None,
    top: Annotated[int, typer.Option(min=1, help="Rows of the table.")] = 20,
    root: Root = RUNS,
    as_json: AsJson = False,
    seed: Seed = None,
    dry_run: Dry = False,
) -> None:
    """Rank strategies, numbers of GPUs, clusters and settings by time, memory, GPU-hours or money; say what each is bound by."""
    if plot is not None and plot.suffix not in DRAWN:
        raise UserError(f"--plot {plot}: expected a name that ends in {' or '.join(DRAWN)}")
    found = asked(file, seed)
    changes: dict[str, Any] = {}
    if objective is not None:
        changes = {"advise": found.advise.model_dump(mode="json", exclude_unset=True) | {"objective": objective}}
        found = asked(file, seed, **changes)
    try:
        points = candidates(found)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    if dry_run:
        rows = [shown.named(one) for one in points]
        return say(pd.DataFrame(rows), f"advise: {len(points)} points, nothing simulated", as_json)
    experiment, run = begin("advise", file, root, seed, executes=False, **changes)
    with stage("simulating") as told:
        run_advice(experiment, run, told, workers, dask or experiment.advise.dask)
    said = shown.records(experiment, run)
    write_text(run.folder / "advice.json", json.dumps(said, indent=1))
    drawing = shown.front(choices(experiment, run), "pareto")
    for target in filter(None, (run.folder / "pareto.svg", run.folder / "pareto.png", plot)):
        if drawing is not None:
            _draw(drawing, target)
    run.finish()
    _tell(experiment, run.folder, said, choices(experiment, run), top, as_json)


def _draw(drawing: Drawing, target: Path) -> None:
    target.write_bytes(drawing.png) if target.suffix == ".png" else target.write_text(drawing.svg)


def _tell(experiment: Experiment, folder: Path, said: dict[str, Any], found: list[Any], top: int, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(said))
    else:
        say(shown.terminal(found, top), f"{experiment.model.name} on {experiment.dataset.label}, simulated", as_json)
        typer.echo(said["headline"])
    ranked, lines, where = sum(one.rank is not None for one in found), shown.left(found), folder / "advice.json"
    notes = [f"{ranked - top} more in {where}"] if ranked > top else []
    notes += [f"not ranked: {line}" for line in lines[:top]]
    notes += [f"{len(lines) - top} more are not ranked: {where}"] if len(lines) > top else []
    for note in (*notes, f"the first as an experiment: {folder / FIRST}", f"run: {folder}"):
        err.print(note, highlight=False, markup=False, soft_wrap=True)
