"""Often: the rows of one table that are asked for most."""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.arrays import Int32


def often(frequency: Int32, room: int, size: int) -> Int32:
    """The rows, of `size` bytes, that are asked for most and fit the room: int32, by falling frequency; none where the size is 0."""
    count = room // size if size else 0
    return np.argsort(-frequency, kind="stable")[:count].astype(np.int32)
