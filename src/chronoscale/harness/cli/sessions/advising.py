"""Advice for an experiment that has been read: points listed, or simulated and ranked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from chronoscale.errors import UserError
from chronoscale.harness.advice import shown
from chronoscale.harness.advice.advise import FIRST
from chronoscale.harness.advice.advise import advise as run_advice
from chronoscale.harness.advice.candidates import candidates
from chronoscale.harness.cli.output import err, print_table, stage
from chronoscale.harness.cli.sessions.session import begin
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.real_exec.measurement.host import host_facts
from chronoscale.reports.charts.advice_drawing import draw_advice
from chronoscale.reports.charts.drawing import Drawing


def list_points(experiment: Experiment, file: Path, as_json: bool) -> None:
    """Print the candidates that `chronoscale advise` would compare, for `--dry-run`. Raises UserError where there is none.

    file: the experiment's, for messages.
    """
    rows = [candidate.columns for candidate in _points(experiment, file)]
    print_table(pd.DataFrame(rows), f"advise: {len(rows)} points, nothing simulated", as_json)


def advise(
    experiment: Experiment, file: Path, root: Path, workers: int | None, dask: str | None, plot: Path | None, top: int, as_json: bool
) -> None:
    """Simulate all candidates of `chronoscale advise` in a run, rank them, and print the ranking and what the first is bound by.

    file: the experiment's. root: folder of runs. workers: processes, None: as many as cores and memory allow. dask: address of a scheduler.
    plot: file for the Pareto front. top: rows of the table. Raises UserError as `list_points`.
    """
    _points(experiment, file)
    experiment, run, _ = begin("advise", experiment, file, root, host_facts())
    with stage("simulating", resumes=True) as on_progress:
        ranked = run_advice(experiment, run, on_progress, workers, dask)
    summary = shown.json_records(ranked, experiment.advise.objective)
    write_text(run.folder / "advice.json", json.dumps(summary, indent=1))
    chart = shown.pareto_chart(ranked, "pareto")
    drawing = None if chart is None else draw_advice(chart)
    for target in filter(None, (run.folder / "pareto.svg", run.folder / "pareto.png", plot)):
        if drawing is not None:
            _draw(drawing, target)
    run.finish()
    _tell(experiment.subject, run.folder, summary, ranked, top, as_json)


def _points(experiment: Experiment, file: Path) -> list[Any]:
    try:
        return list(candidates(experiment))
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def _draw(drawing: Drawing, target: Path) -> None:
    target.write_bytes(drawing.png) if target.suffix == ".png" else target.write_text(drawing.svg)


def _tell(subject: str, folder: Path, summary: dict[str, Any], choices_of_run: list[Any], top: int, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        print_table(shown.terminal_table(choices_of_run, top), f"{subject}, simulated", as_json)
        typer.echo(summary["headline"])
    ranked, lines, where = (
        sum(choice.rank is not None for choice in choices_of_run),
        shown.not_ranked(choices_of_run),
        folder / "advice.json",
    )
    notes = [f"{ranked - top} more in {where}"] if ranked > top else []
    notes += [f"not ranked: {line}" for line in lines[:top]]
    notes += [f"{len(lines) - top} more are not ranked: {where}"] if len(lines) > top else []
    for note in (*notes, f"the first as an experiment: {folder / FIRST}", f"run: {folder}"):
        err.print(note, highlight=False, markup=False, soft_wrap=True)
