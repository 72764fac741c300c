"""Ids of sensors as files name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.node_names import Names

DIGITS = 19  # of an integer beyond 64 bits


class SensorIds(NamedTuple):
    """What a signal keeps of its sensors' names: `node_ids`, int64 [N], or else `node_names`, text [N]."""

    ids: Int64 | None
    names: Names | None


def sensor_ids(names: Sequence[str]) -> SensorIds:
    """Return names of sensors as ids where all are whole numbers without zeros before them (007 and 7 are two sensors), else as names."""
    if all(name.isdecimal() and len(name) < DIGITS and str(int(name)) == name for name in names):
        return SensorIds(np.array([int(name) for name in names], np.int64), None)
    return SensorIds(None, np.array(names, np.str_))
