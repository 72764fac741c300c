"""Command `advise`. The experiment is read first, so that a wrong file is refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronoscale.harness.cli.experiment_argument import read_advice
from chronoscale.harness.cli.options import RUNS, AsJson, Dask, Dry, File, Root, Seed
from chronoscale.harness.sweep.address import knock
from chronoscale.interruption import at_once


def advise(
    file: File,
    objective: Annotated[
        str | None, typer.Option(help="time, memory, gpu-hours or cost; by default the file's.", show_default=False)
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default as cores and memory allow.", show_default=False)] = None,
    dask: Dask = None,
    plot: Annotated[Path | None, typer.Option(help="Write the Pareto front there, .svg or .png.", show_default=False)] = None,
    top: Annotated[int, typer.Option(min=1, help="Rows of the table.")] = 20,
    root: Root = RUNS,
    as_json: AsJson = False,
    seed: Seed = None,
    dry_run: Dry = False,
) -> None:
    """Rank strategies, numbers of GPUs, clusters and settings by time, memory, GPU-hours or money; say what each is bound by."""
    experiment = read_advice(file, objective, plot, seed, dry_run)
    if not dry_run:
        knock(dask := dask or experiment.advise.dask)
    with at_once():
        from chronoscale.harness.cli.sessions import advising  # noqa: PLC0415 (a command's door)

    if dry_run:
        return advising.list_points(experiment, file, as_json)
    advising.advise(experiment, file, root, workers, dask, plot, top, as_json)
