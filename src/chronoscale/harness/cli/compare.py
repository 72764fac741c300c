"""Command `compare`. The experiment is read first, so that a wrong file is refused at once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from chronoscale.errors import UserError
from chronoscale.harness.cli.experiment_argument import read_experiment
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
    knock(dask)
    keys = experiment.compare.model_dump(mode="json", exclude_unset=True)
    keys |= {} if target is None else {"target": _target(target)}
    keys |= {} if seeds is None else {"seeds": seeds}
    experiment = read_experiment(file, seed, **given, compare=keys)
    with at_once():
        from chronoscale.harness.cli import comparing  # noqa: PLC0415 (a command's door)

    comparing.compare(experiment, file, root, as_json, seats=ranks is None, dask=dask)


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
