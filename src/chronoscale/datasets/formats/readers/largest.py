"""Reader of LargeST's traffic files: pandas' HDF5 of a year's flows (`sd_his_2019.h5`) beside `sd_rn_adj.npy` and `sd_meta.csv`."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets.formats.adjacency import AdjacencyMatrix
from chronoscale.datasets.formats.readers.dcrnn import Key
from chronoscale.datasets.formats.signal_options import Adjacency, Missing, TimeOfDay
from chronoscale.datasets.formats.table_signal import table_signal
from chronoscale.datasets.formats.tables.hdf_table import SUFFIXES, read_hdf
from chronoscale.datasets.signals.graphs.sensor_table import SensorTable
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

ADJACENCY, META, ID = "*adj*.npy", "*meta*.csv", "ID"


def matches(path: Path, first: str) -> bool:
    """Return whether a file is one of LargeST's, as the matrix beside it says."""
    return path.suffix in SUFFIXES and bool(_beside(path, ADJACENCY)) and not list(path.parent.glob("adj_mx*.pkl"))


def read(
    path: str | Path, *, key: Key = None, adjacency: Adjacency = None, missing: Missing = None, time_of_day: TimeOfDay = False
) -> Signal:
    """Read a year of a traffic dataset of LargeST (Liu et al., NeurIPS 2023) as a signal: a table of flows in pandas' HDF5 (steps x
    sensors, one channel, NaN: missing) with the matrix of the road network, `sd_rn_adj.npy` (or `adjacency`), whose rows are the sensors of
    `sd_meta.csv`; BasicTS names them `adj_SD.npy` and `meta_SD.csv`.

    Where there is no such csv, the matrix has the order of the table. Edges i -> j where the matrix is not zero, self-loops among them as
    in the file. Other options and errors as of DCRNN's files.
    """
    path = Path(path)
    table = read_hdf(path, key)
    matrix = AdjacencyMatrix.read(_only(path, ADJACENCY) if adjacency is None else Path(adjacency))
    files = [path.name, matrix.path.name]
    if _beside(path, META):
        meta = SensorTable.read(_only(path, META))
        meta.require([ID])
        matrix, files = AdjacencyMatrix(matrix.path, matrix.matrix, meta.texts(ID)), [*files, meta.path.name]
    return table_signal(path, table, matrix, files, missing, time_of_day)


def _beside(path: Path, pattern: str) -> list[Path]:
    """Files beside a table whose names begin or end as its own does, `sd` or `SD`; all, where none does."""
    area = path.stem.partition("_")[0].lower()
    files = sorted(path.parent.glob(pattern))
    return [file for file in files if area in file.stem.lower().split("_")] or files


def _only(path: Path, pattern: str) -> Path:
    files = _beside(path, pattern)
    if len(files) != 1:
        names = ", ".join(file.name for file in files)
        raise UserError(f"{path}: expected one {pattern} beside it, found {names or 'none'}; say which with adjacency=")
    return files[0]
