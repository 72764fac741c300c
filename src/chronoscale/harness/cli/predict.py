"""Command `predict`."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from chronoscale.errors import UserError
from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import stage
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.training_record import FOLDER, JOB
from chronoscale.interruption import at_once


class Period(StrEnum):
    """What a trained model predicts: the steps after the data, or what was held out."""

    NEXT = "next"
    TEST = "test"
    VALIDATION = "validation"


def predict(
    folder: Annotated[Path, typer.Argument(help="Run of `chronoscale train`.", metavar="RUN", show_default=False)],
    out: Annotated[Path, typer.Option(help="File to write: .parquet or .csv.")] = Path("predictions.parquet"),
    period: Annotated[
        Period | None,
        typer.Option(help="Of signals the steps after the last reading, the test or the validation windows.", show_default="next; test"),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw three sensors of the test or validation to this file, .svg or .png.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write what a trained model predicts: of signals a row a sensor and step, of streams a row a test event, of snapshots a row a node or
    edge of the test."""
    run = Run(folder)
    if run.status.command != "train" or not (folder / FOLDER / JOB).exists():
        raise UserError(f"{folder}: not a run of `chronoscale train`, whose model predicts")
    with at_once():
        from chronoscale.harness.publish.forecast_picture import ForecastPicture  # noqa: PLC0415 (a command's door)
        from chronoscale.harness.publish.prediction_file import write_predictions  # noqa: PLC0415
        from chronoscale.harness.runs.moved import moved  # noqa: PLC0415
        from chronoscale.harness.runs.start import load_experiment  # noqa: PLC0415
        from chronoscale.harness.workflows.execution_registry import execution_of  # noqa: PLC0415
        from chronoscale.real_exec.job import Job  # noqa: PLC0415
        from chronoscale.real_exec.training.training_end import ENDED  # noqa: PLC0415

    if not (folder / FOLDER / ENDED).exists():
        raise UserError(f"{folder}: training has not come to its end; the same `chronoscale train` goes on with it")
    chosen = None if picture is None else ForecastPicture(picture)
    job = moved(Job.load(folder / FOLDER / JOB), folder)
    with stage("predicting"):
        experiment = load_experiment(run)
        frames = execution_of(experiment.family).predictions(job, None if period is None else period.value)
        if experiment.unit:
            frames = (frame.assign(unit=experiment.unit) for frame in frames)
        rows = write_predictions(frames if chosen is None else chosen.watch(frames), out)
        if chosen is not None:
            chosen.draw()
    typer.echo(json.dumps({"file": str(out), "rows": rows}) if as_json else f"{out}: {rows:,} rows")
