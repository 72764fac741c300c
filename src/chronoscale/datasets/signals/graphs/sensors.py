"""Names of a signal's sensors, by which the rows of a file about them are found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.node_names import name_nodes
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

FEW = 3  # names that a message shows


def sensor_names(signal: Signal) -> list[str]:
    """Return the name of each of a signal's sensors, as files about them have it: its name or id in the source, or its number from 0."""
    return name_nodes(signal, range(signal.num_nodes))


def are_named(signal: Signal) -> bool:
    """Return whether a signal's sensors have names or ids of their own, so that the order of a file's rows says nothing."""
    return signal.node_ids is not None or signal.node_names is not None


def sensor_numbers(names: Sequence[str], signal: Signal) -> Int64:
    """Return the number of the sensor that each of `names` is, int64 [names]; -1 for one that the signal does not have."""
    places = {name: number for number, name in enumerate(sensor_names(signal))}
    return np.array([places.get(name.strip(), -1) for name in names], np.int64)


def strangers(path: Path, theirs: Sequence[str], signal: Signal) -> UserError:
    """Return the error to raise where a file names none of a signal's sensors: names of both. theirs: those of the file."""
    in_file, in_signal = (", ".join(dict.fromkeys(names[:FEW])) for names in (list(theirs), sensor_names(signal)))
    return UserError(f"{path}: none of its sensors ({in_file}, …) is one of the readings' ({in_signal}, …)")
