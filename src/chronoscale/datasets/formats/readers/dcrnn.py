"""Reader of DCRNN's traffic files: pandas' HDF5 of readings (`metr-la.h5`, `pems-bay.h5`) and a pickled adjacency matrix (`adj_mx.pkl`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from chronoscale.datasets.formats.adjacency import AdjacencyMatrix
from chronoscale.datasets.formats.signal_options import Adjacency, Missing, TimeOfDay
from chronoscale.datasets.formats.table_signal import table_signal
from chronoscale.datasets.formats.tables.hdf_table import read_hdf
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

Key = Annotated[str | None, "of the table, where the file has several"]


def read(
    path: str | Path, *, key: Key = None, adjacency: Adjacency = None, missing: Missing = None, time_of_day: TimeOfDay = False
) -> Signal:
    """Read a traffic dataset of DCRNN as a signal: a table of readings in pandas' HDF5 (steps x sensors, one channel, NaN: missing) with
    `adjacency`, or the only `adj_mx*.pkl` beside it.

    `key` names the table where the file has several. Edges i -> j where the matrix is not zero; its rows are brought into the order of the
    table's sensors. node_ids where all sensors are decimal, else node_names. Readings equal to `missing` are missing (METR-LA: 0).
    `time_of_day` adds a channel: true, from the table's index; or steps a day where that has no local times. Raises UserError naming a
    file that is missing, damaged, or does not fit, and where time falls.
    """
    path = Path(path)
    table = read_hdf(path, key)
    beside = AdjacencyMatrix.read(_find_adjacency(path) if adjacency is None else Path(adjacency))
    return table_signal(path, table, beside, [path.name, beside.path.name], missing, time_of_day)


def _find_adjacency(path: Path) -> Path:
    beside = sorted(path.parent.glob("adj_mx*.pkl"))
    if len(beside) != 1:
        names = ", ".join(file.name for file in beside) or "none"
        raise UserError(f"{path}: expected one adj_mx*.pkl beside it, found {names}; say which with adjacency=")
    return beside[0]
