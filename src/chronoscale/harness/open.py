"""Open: a dataset as an experiment names it, before anything is asked of it."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets import catalogue
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.store import Dataset
from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment import Data


def opened(data: Data, seed: int) -> Dataset:
    """The dataset as it comes, by name or path. Raises UserError when it is unknown, absent or malformed."""
    if data.name is not None:
        return catalogue.load(data.name, seed)
    for file in data.files:
        if not Path(file).exists():
            raise UserError(f"{file}: no such file or folder")
    return open_dataset(data.files, data.format, **data.options)
