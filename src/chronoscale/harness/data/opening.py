"""Opening of a dataset as an experiment names it."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets import catalogue
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.store import Dataset
from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment import Data
from chronoscale.strategies.streams.models import STREAM_MODELS


def open_data(data: Data, seed: int) -> Dataset:
    """Open the dataset that an experiment file names, as its reader or generator gives it.

    seed: of generated data. Raises UserError when it is unknown, absent or malformed.
    """
    if data.name is not None:
        return catalogue.load(data.name, seed)
    for file in data.files:
        if not Path(file).exists():
            raise UserError(f"{file}: no such file or folder")
    return open_dataset(data.files, data.format, **data.options)


def stream_refusal(label: str) -> str:
    """Return the error text for an experiment that names an event stream and a model of another family: what can be done with it.

    label: the dataset's name for people.
    """
    return (
        f"dataset '{label}' is a stream of events: {', '.join(STREAM_MODELS)} train on it as it is, models on snapshots where it is "
        "cut, as in `cut: {width: 604800}` or `cut: {count: 1000}`"
    )
