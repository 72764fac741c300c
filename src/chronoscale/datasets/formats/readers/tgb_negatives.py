"""Reader of the Temporal Graph Benchmark's published negatives, which the events of a split are ranked against: `tgbl-wiki_test_ns_v2.pkl`
and the like.

Such a file is a pickle of a mapping, (source, destination, time) -> destinations, that TGB's public generator wrote
(tgb/linkproppred/negative_generator.py): nodes have TGB's numbers, times are whole. (Huang et al., 2023, section 4.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.formats.pickles.array_pickle import PickledArray, read_pickle
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.negatives import NONE
from chronoscale.datasets.unpacking import require_memory
from chronoscale.errors import UserError

WHAT = "TGB's negatives, a mapping (source, destination, time) -> destinations"
ANOTHER = "negatives of another dataset, version or split (TGB's is training.split: [0.7, 0.15])"
CELL = 24  # bytes of a destination while it is read, for each event and place in the longest row
Key = tuple[int, int, int]  # source, destination, time


def read_negatives(path: Path, events: EventStream, part: range) -> Int32:
    """Read TGB's negatives of the events `part` of a stream whose nodes have TGB's numbers: int32 [E, k], NONE where a row is shorter than
    others. Events of one source, destination and time share theirs.

    Nothing that the pickle names is run. Raises UserError naming the file where it is damaged, holds anything but destinations, or is not
    of exactly these events.
    """
    rows = read_pickle(path, WHAT)
    if not isinstance(rows, dict):
        raise UserError(f"{path}: expected {WHAT}, found {type(rows).__name__}")
    span = slice(part.start, part.stop)
    columns = events.src[span], events.dst[span], events.t[span].astype(np.int64)  # TGB cuts fractions of a time off
    keys: list[Key] = list(zip(*(column.tolist() for column in columns), strict=True))
    _require_same_events(path, rows, keys, part)
    destinations = [_row(path, key, rows[key]) for key in keys]
    lengths = np.array([row.size for row in destinations])
    require_memory(path, CELL * len(destinations) * int(lengths.max()))  # rows may be one row, named many times
    flat = np.concatenate(destinations)
    wrong = ~((flat >= 0) & (flat < events.num_nodes) & (flat == np.floor(flat)))
    if wrong.any():
        at = int(np.argmax(wrong))
        key = keys[int(np.searchsorted(np.cumsum(lengths), at, side="right"))]
        raise UserError(f"{path}: {_event(key)}: expected nodes below {events.num_nodes}, found {flat[at]:g}; {ANOTHER}")
    dst = np.full((len(keys), lengths.max()), NONE, np.int32)
    dst[np.arange(dst.shape[1]) < lengths[:, None]] = flat
    return dst


def _require_same_events(path: Path, rows: dict[Any, Any], keys: Sequence[Key], part: range) -> None:
    """Check that a file has rows of the events of `part`, whose keys are given, and of no others. Raises UserError."""
    absent = [key for key in keys if key not in rows]
    if absent:
        raise UserError(f"{path}: no negatives of {len(absent):,} of the {len(part):,} events, the first {_event(absent[0])}; {ANOTHER}")
    if more := len(rows) - len({*keys}):
        raise UserError(f"{path}: has negatives of {more:,} events beside the {len(part):,} that are to be ranked; {ANOTHER}")


def _row(path: Path, key: Key, row: Any) -> NDArray[Any]:
    """Return the destinations of one event as an array of numbers [k]. Raises UserError for anything else, and for none."""
    if not isinstance(row, PickledArray):
        raise UserError(f"{path}: {_event(key)}: expected an array of destinations, found {type(row).__name__}")
    values = row.values
    if values.ndim != 1 or not values.size or values.dtype.kind not in "iuf":
        raise UserError(f"{path}: {_event(key)}: expected one destination or more, found an array {values.shape} of {values.dtype}")
    return values


def _event(key: Key) -> str:
    return f"{key[0]} -> {key[1]} at {key[2]}"
