"""Signal of a table of readings, one column a sensor, and a graph of its sensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from chronoscale.datasets.formats.adjacency import AdjacencyMatrix
from chronoscale.datasets.formats.sensor_ids import sensor_ids
from chronoscale.datasets.formats.signal_options import Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.formats.tables.hdf_table import HdfTable
from chronoscale.datasets.signals.calendar import require_times
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError


def table_signal(
    path: Path, table: HdfTable, matrix: AdjacencyMatrix, files: Sequence[str], missing: Missing, time_of_day: TimeOfDay
) -> Signal:
    """Return the readings of a table (steps x sensors, one channel) as a signal, with the edges of the matrix beside it, in the order of
    the table's sensors. node_ids where all their names are decimal, else node_names. files: names of what was read. Raises UserError naming
    `path` where something does not fit, and where time falls.
    """
    edges, weights = matrix.edges(len(table.sensors), path.name, table.sensors)
    try:
        ids, names = sensor_ids(table.sensors)
        signal = Signal.from_readings(table.values[:, :, None], edges, weights, ids, path.stem, {"files": [*files]})
        signal = replace(signal, node_names=names)
        if table.times is not None:
            require_times(signal, table.times)
        return apply_signal_options(signal, missing, time_of_day, table.times)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
