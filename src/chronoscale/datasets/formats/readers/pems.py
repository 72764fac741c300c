"""Reader of PEMS03, 04, 07 and 08 as ASTGCN's and STSGCN's authors distribute them: `PEMS04.npz` beside `PEMS04.csv`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.account import Account
from chronoscale.datasets.archive import read_archive, read_shapes
from chronoscale.datasets.formats.sensor_ids import sensor_ids
from chronoscale.datasets.formats.signal_options import Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.signals.axes import Axes, time_first
from chronoscale.datasets.signals.graphs.sensor_graph import SensorGraph
from chronoscale.datasets.signals.graphs.sensor_table import SensorTable
from chronoscale.datasets.signals.graphs.sensors import sensor_numbers
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

DATA = "data"


def matches(path: Path, first: str) -> bool:
    """Return whether an archive is one of these: of one array, `data`, beside a csv of its name."""
    if path.suffix != ".npz" or not path.with_suffix(".csv").is_file():
        return False
    try:
        return set(read_shapes(path)) == {DATA}
    except UserError:  # what is wrong with it, its reader says
        return False


def read(path: str | Path, *, axes: Axes = None, missing: Missing = None, time_of_day: TimeOfDay = False) -> Signal:
    """Read a traffic dataset of the PEMS0X family as a signal: `PEMS04.npz` with `data` [T, N, C] (flow, occupancy, speed) beside
    `PEMS04.csv` of roads (from, to, and cost or distance), and `PEMS03.txt` with the sensors' ids, a line each, where roads are between
    ids; without it they are between sensors' numbers from 0.

    Edges are the file's rows, in their direction, and weigh 1, as in the authors' code; `graph: {kind: distance, path: PEMS04.csv}` weighs
    them by their lengths. node_ids where there are ids. Readings that are NaN or equal to `missing` are missing. The file has no times:
    `time_of_day` is steps a day (288), from midnight on. Raises UserError naming a file that is damaged or does not fit.
    """
    path = Path(path)
    arrays = read_archive(path)
    if DATA not in arrays or arrays[DATA].ndim != 3 or arrays[DATA].dtype.kind not in "iuf":
        raise UserError(f"{path}: expected numbers in 3 dimensions as {DATA}")
    roads, listed = SensorTable.read(path.with_suffix(".csv")), path.with_suffix(".txt")
    ids = _read_ids(listed)
    if len(roads.columns) < 2:
        raise UserError(f"{roads.path}: expected the columns from and to, found {', '.join(roads.columns)}")
    values: NDArray[np.floating[Any]] = arrays[DATA].astype(np.float32 if arrays[DATA].dtype.itemsize <= 4 else np.float64)
    numbers = None if ids is None else sensor_ids(ids).ids
    try:
        values = time_first(values, axes, _most(roads) if ids is None else 0, None if ids is None else len(ids))
        if numbers is not None and len(numbers) != values.shape[1]:
            raise UserError(f"{listed.name} has {len(numbers):,} ids, for {values.shape[1]:,} sensors")
        graph = _roads(roads, Signal.from_readings(values, np.zeros((2, 0), np.int32), None, numbers))
        account: Account = {"files": [path.name, roads.path.name, *[listed.name] * (ids is not None)], "graph": graph.note}
        signal = Signal.from_readings(values, graph.edge_index, None, numbers, path.stem, account)
        return apply_signal_options(signal, missing, time_of_day)
    except UserError as error:
        raise error if str(error).startswith(str(roads.path)) else UserError(f"{path}: {error}") from None


def _read_ids(path: Path) -> list[str] | None:
    """The ids of the sensors, in the order of the readings; None where there is no such file."""
    if not path.is_file():
        return None
    ids = path.read_text(encoding="utf-8-sig").split()
    if sensor_ids(ids).ids is None or len(set(ids)) < len(ids):
        raise UserError(f"{path}: expected whole numbers, a line each, each once, without zeros before them")
    return ids


def _most(roads: SensorTable) -> int:
    return int(max(roads.numbers(name).max() for name in roads.columns[:2])) + 1


def _roads(roads: SensorTable, signal: Signal) -> SensorGraph:
    """The edges of a csv. Raises UserError for an end that is no sensor."""
    ends = []
    for name in roads.columns[:2]:
        numbers = sensor_numbers(roads.texts(name), signal)
        if (numbers < 0).any():
            stranger = roads.texts(name)[int(np.argmin(numbers))]
            raise UserError(f"{roads.path}: column {name}: '{stranger}' is none of the {signal.num_nodes} sensors")
        ends.append(numbers)
    return SensorGraph.of(ends[0], ends[1], None, f"roads of {roads.path.name}, which all weigh 1")
