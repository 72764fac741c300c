"""Comparison, for an experiment that has been read: strategies trained to one target, and what came of it."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from chronoscale.harness.cli.output import err, print_table, stage
from chronoscale.harness.cli.sessions.execution_session import begin_execution
from chronoscale.harness.compare import shown
from chronoscale.harness.compare.compare import compare as run_comparison
from chronoscale.harness.compare.compare import compared
from chronoscale.harness.compare.figure import chart
from chronoscale.harness.compare.reading import comparison
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.reports.charts.advice_drawing import draw_advice


def compare(experiment: Experiment, file: Path, root: Path, as_json: bool, seats: bool, dask: str | None = None) -> None:
    """Do what `chronoscale compare` does, with an experiment that has been read, and print the verdict and a table.

    file: the experiment's. root: folder of runs. seats: train on as many ranks as this machine has devices for, in place of refusing.
    dask: address of a scheduler whose workers simulate.
    Writes compare.json, compare.svg and compare.png to the run's folder.
    """
    experiment, run = begin_execution("compare", compared(experiment), file, root, seats and not experiment.virtual)
    with stage("comparing", resumes=True, lines=True) as on_progress:
        result = comparison(run_comparison(experiment, run, on_progress, dask))
    summary = shown.summary(result)
    figure = draw_advice(chart(summary))
    write_text(run.folder / shown.FILE, json.dumps(summary, indent=1))
    (run.folder / "compare.svg").write_text(figure.svg)
    (run.folder / "compare.png").write_bytes(figure.png)
    run.finish()
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        print_table(shown.rounded_table(summary), f"{experiment.subject}, {shown.where(result)}", as_json)
        typer.echo(summary["verdict"])
    for note in (*summary["notes"], f"figure: {run.folder / 'compare.svg'}", f"run: {run.folder}"):
        err.print(note, highlight=False, markup=False, soft_wrap=True)
