"""Reader of folders that this package wrote (`datasets.store`)."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets import store
from chronoscale.datasets.formats.signal_options import Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.store import Dataset
from chronoscale.errors import UserError


def read(path: str | Path, *, missing: Missing = None, time_of_day: TimeOfDay = False) -> Dataset:
    """Map a dataset from a folder that `store.save` (or `chronoscale data convert`) wrote. Raises UserError naming a file that is missing
    or damaged, and for `missing` or `time_of_day`, options of a signal, where the folder holds none."""
    dataset = store.load(path)
    if isinstance(dataset, Signal):
        return apply_signal_options(dataset, missing, time_of_day)
    if missing is not None or time_of_day:
        raise UserError(f"{path}: missing and time_of_day are options of a signal, the folder holds {type(dataset).__name__}")
    return dataset
