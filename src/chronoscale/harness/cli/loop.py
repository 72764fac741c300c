"""Commands `profile`, `bench`, `validate` and `simulate`. The experiment is read first, so that a wrong file is refused at once."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from chronoscale.harness.cli.experiment_argument import read_experiment, read_timed
from chronoscale.harness.cli.options import RUNS, AsJson, Dask, Dry, File, Root, Seed, Tornado
from chronoscale.harness.sweep.address import knock
from chronoscale.interruption import at_once


def profile(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Measure operations on this device, fit cost curves, report their held-out error."""
    experiment = read_timed("profile", file, seed, dry_run)
    if dry_run:
        return _print_dry_run("profile", experiment, as_json, ranks=(1,))
    _steps().profile(experiment, file, root, as_json)


def bench(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Train with every strategy for real, on every rank count."""
    experiment = read_timed("bench", file, seed, dry_run)
    if dry_run:
        return _print_dry_run("bench", _steps().seated(experiment), as_json, executed=True)
    _steps().bench(experiment, file, root, as_json)


def validate(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Execute and replay the same schedules; print the error per operation, iteration and in total, beside the spread of the repeats."""
    experiment = read_timed("validate", file, seed, dry_run)
    if dry_run:
        return _print_dry_run("validate", _steps().seated(experiment), as_json, executed=True)
    _steps().validate(experiment, file, root, as_json)


def simulate(
    file: File,
    dask: Dask = None,
    tornado: Tornado = False,
    root: Root = RUNS,
    as_json: AsJson = False,
    seed: Seed = None,
    dry_run: Dry = False,
) -> None:
    """Replay every strategy on every number of GPUs of the cluster."""
    experiment = read_experiment(file, seed, dry_run)
    if dry_run:
        return _print_dry_run("simulate", experiment, as_json)
    knock(dask)
    with at_once():
        from chronoscale.harness.cli.sessions import simulating  # noqa: PLC0415 (a command's door)

    simulating.simulate(experiment, file, root, as_json, dask, tornado)


def _steps() -> ModuleType:
    with at_once():
        from chronoscale.harness.cli.sessions import executing  # noqa: PLC0415 (a command's door)

    return executing


def _print_dry_run(*arguments: Any, **keywords: Any) -> None:
    """Do what `dry_run.print_dry_run` does, for a command that ends with it."""
    with at_once():
        from chronoscale.harness.cli.dry_run import print_dry_run  # noqa: PLC0415 (a command's door)

    print_dry_run(*arguments, **keywords)
