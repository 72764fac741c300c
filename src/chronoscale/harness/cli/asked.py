"""Asked: the experiment that a command is to deal with, read before anything that plans or trains is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chronoscale.harness.experiment import Experiment
from chronoscale.harness.experiments import load


def asked(file: Path, seed: int | None, **changes: Any) -> Experiment:
    """The experiment of a file, with what the command line says instead."""
    return load(file, changes if seed is None else {**changes, "seed": seed})
