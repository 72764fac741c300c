"""Command `compare`. The experiment is read first, so that a wrong file is refused at once."""

from __future__ import annotations

from typing import Annotated

import typer

from chronoscale.harness.cli.experiment_argument import read_comparison
from chronoscale.harness.cli.options import RUNS, AsJson, File, Root, Seed
from chronoscale.harness.sweep.address import knock
from chronoscale.interruption import at_once


def compare(
    file: File,
    target: Annotated[
        str | None, typer.Option(help="A score (mse=0.077), share=0.9, naive, or a strategy; by default the file's.", show_default=False)
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Trainings of each strategy.", show_default=False)] = None,
    epochs: Annotated[int | None, typer.Option(help="Overrides the experiment's epochs of a training.", show_default=False)] = None,
    ranks: Annotated[int | None, typer.Option(help="By default the most that the experiment names.", show_default=False)] = None,
    gpus: Annotated[
        str | None,
        typer.Option(help="Numbers such as 1,8,64: learn as so many GPUs do, by virtual ranks, in simulated seconds.", show_default=False),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="That --gpus are simulated on; by default the file's.", show_default=False)] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Of a Dask scheduler whose workers simulate --gpus; trainings stay here.", show_default=False),
    ] = None,
    root: Root = RUNS,
    as_json: AsJson = False,
    seed: Seed = None,
) -> None:
    """Train every strategy to one target from several seeds; say who gets there first, how sure that is, and at what cost."""
    experiment = read_comparison(file, target, seeds, epochs, ranks, gpus, cluster, dask, seed)
    knock(dask)
    with at_once():
        from chronoscale.harness.cli.sessions import comparing  # noqa: PLC0415 (a command's door)

    comparing.compare(experiment, file, root, as_json, seats=ranks is None, dask=dask)
