"""Reader of T-GCN's csv files: readings with the sensor ids as header, and a dense adjacency matrix beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.formats.signal_options import Adjacency, Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.formats.tables.lines import first_line, is_number
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError


def read(path: str | Path, *, adjacency: Adjacency = None, missing: Missing = None, time_of_day: TimeOfDay = False) -> Signal:
    """Read a traffic dataset of T-GCN as a signal: `X_speed.csv` with `X_adj.csv` (or `adjacency`); one channel, edges i -> j where the
    matrix is not zero.

    Readings that are nan or equal to `missing` are missing. The file has no times: `time_of_day` is steps a day, from midnight on
    (los_loop: 288). Raises UserError, `file:line: what`, and where the matrix does not fit the readings.
    """
    path = Path(path)
    adjacency = adjacency_of(path) if adjacency is None else Path(adjacency)
    header = [name.strip() for name in first_line(path).split(",")]
    readings, matrix = (
        TextTable(path, separator=",", skip=1, gaps=True).read_all(),
        TextTable(adjacency, separator=",").read_all(),
    )
    nodes = readings.fields
    if any(is_number(name) and not name.isdecimal() for name in header):
        raise UserError(f"{path}:1: expected a header of sensor ids, found the numbers {','.join(header)[:40]}")
    if len(header) != nodes:
        raise UserError(f"{path}:1: {len(header)} sensor ids for {nodes} columns")
    if (len(matrix), matrix.fields) != (nodes, nodes):
        raise UserError(f"{adjacency}: expected {nodes} x {nodes} for the sensors of {path.name}, found {len(matrix)} x {matrix.fields}")
    weights = matrix.matrix()
    src, dst = np.nonzero(weights)
    values = readings.matrix()[:, :, None]
    edges = np.stack([src, dst]).astype(np.int32)
    signal = Signal.from_readings(values, edges, weights[src, dst], _integers(header), path.stem, {"files": [path.name, adjacency.name]})
    try:
        return apply_signal_options(signal, missing, time_of_day)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def adjacency_of(path: Path) -> Path:
    """Return the path of the adjacency matrix that T-GCN's datasets have beside the readings: of `X_speed.csv`, `X_adj.csv`."""
    return path.with_name(path.name.rsplit("_", 1)[0] + "_adj.csv")


def _integers(names: list[str]) -> Int64 | None:
    return np.array([int(name) for name in names], dtype=np.int64) if all(name.isdecimal() and len(name) < 19 for name in names) else None
