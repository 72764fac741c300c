"""Reader of T-GCN's csv files: readings with the sensor ids as header, and a dense adjacency matrix beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chronoscale.datasets.formats.adjacency import AdjacencyMatrix
from chronoscale.datasets.formats.sensor_ids import sensor_ids
from chronoscale.datasets.formats.signal_options import Adjacency, Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.formats.tables.lines import first_line, is_number
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.datasets.signals.axes import SENSORS_FIRST, Axes, time_first
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError


def read(
    path: str | Path, *, adjacency: Adjacency = None, axes: Axes = None, missing: Missing = None, time_of_day: TimeOfDay = False
) -> Signal:
    """Read a traffic dataset of T-GCN as a signal: `X_speed.csv` with `X_adj.csv` (or `adjacency`); one channel, edges i -> j where the
    matrix is not zero.

    Readings that are nan or equal to `missing` are missing. The file has no times: `time_of_day` is steps a day, from midnight on
    (los_loop: 288). axes: order of the two; of sensors,time the header names steps. Raises UserError, `file:line: what`, where the matrix
    does not fit the readings, and where axes look swapped.
    """
    path = Path(path)
    adjacency = adjacency_of(path) if adjacency is None else Path(adjacency)
    header = [name.strip() for name in first_line(path).split(",")]
    readings, matrix = (
        TextTable(path, separator=",", skip=1, gaps=True).read_all(),
        TextTable(adjacency, separator=",").read_all(),
    )
    if any(is_number(name) and not name.isdecimal() for name in header):
        raise UserError(f"{path}:1: expected a header of sensor ids, found the numbers {','.join(header)[:40]}")
    if len(header) != readings.fields:
        raise UserError(f"{path}:1: {len(header)} names for {readings.fields} columns")
    try:
        beside = AdjacencyMatrix(adjacency, matrix.matrix())
        values = time_first(readings.matrix(), axes, exactly=beside.square)
        edges, weights = beside.edges(values.shape[1], path.name)
        ids, names = (None, None) if axes == SENSORS_FIRST else sensor_ids(header)
        signal = Signal.from_readings(values[:, :, None], edges, weights, ids, path.stem, {"files": [path.name, adjacency.name]})
        signal = replace(signal, node_names=names)
        return apply_signal_options(signal, missing, time_of_day)
    except UserError as error:
        raise error if str(error).startswith(str(adjacency)) else UserError(f"{path}: {error}") from None


def adjacency_of(path: Path) -> Path:
    """Return the path of the adjacency matrix that T-GCN's datasets have beside the readings: of `X_speed.csv`, `X_adj.csv`."""
    return path.with_name(path.name.rsplit("_", 1)[0] + "_adj.csv")
