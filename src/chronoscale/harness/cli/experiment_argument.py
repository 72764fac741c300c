"""Experiment that a command is given, read before anything that plans or trains is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chronoscale import modules
from chronoscale.errors import UserError
from chronoscale.harness.cli.output import print_executed_files
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import load


def read_experiment(file: Path, seed: int | None, dry: bool = False, **changes: Any) -> Experiment:
    """Read the experiment file that a command is given; options of the command line replace its keys.

    seed, changes: of these options; None: the file's. dry: print which of its Python files were executed to read it, even where it is
    refused.
    """
    before = len(modules.executed())
    try:
        experiment = load(file, changes if seed is None else {**changes, "seed": seed})
    except UserError:
        print_executed_files(modules.executed()[before:] if dry else ())
        raise
    print_executed_files(modules.executed()[before:] if dry else ())
    return experiment
