"""Ids of sensors as files name them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chronoscale.datasets.arrays import Int64


def decimal_ids(names: Sequence[str]) -> Int64 | None:
    """Return names of sensors as a signal's `node_ids`, int64 [N]; None where not all of them are whole numbers."""
    return np.array([int(name) for name in names], dtype=np.int64) if all(name.isdecimal() and len(name) < 19 for name in names) else None
