"""Reader of DCRNN's traffic files: pandas' HDF5 of readings (`metr-la.h5`, `pems-bay.h5`) and a pickled adjacency matrix (`adj_mx.pkl`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.formats.pickles.array_pickle import PickledArray, read_pickle
from chronoscale.datasets.formats.signal_options import Adjacency, Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.signals.calendar import Times, require_times
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.unpacking import require_memory
from chronoscale.errors import UserError, unknown

if TYPE_CHECKING:
    import h5py

SUFFIXES = (".h5", ".hdf5")
KIND = re.compile(r"datetime64(?:\[(s|ms|us|ns)\])?")  # without a unit: pandas before 3


class _Readings(NamedTuple):
    sensors: list[str]
    values: NDArray[Any]
    times: Times | None


class _AdjacencyMatrix(NamedTuple):
    sensors: list[str]
    matrix: NDArray[Any]


def read(
    path: str | Path,
    *,
    key: Annotated[str | None, "of the table, where the file has several"] = None,
    adjacency: Adjacency = None,
    missing: Missing = None,
    time_of_day: TimeOfDay = False,
) -> Signal:
    """Read a traffic dataset of DCRNN as a signal: a table of readings in pandas' HDF5 (steps x sensors, one channel, NaN: missing) with
    `adjacency`, or the only `adj_mx*.pkl` beside it.

    `key` names the table where the file has several. Edges i -> j where the matrix is not zero; its rows are brought into the order of the
    table's sensors. node_ids where all sensors are decimal. Readings equal to `missing` are missing (METR-LA: 0). `time_of_day` adds a
    channel: true, from the table's index; or steps a day where that has no local times. Raises UserError naming a file that is missing,
    damaged, or does not fit, and where time falls.
    """
    path = Path(path)
    sensors, values, times = _read_table(path, key)
    beside = _find_adjacency(path) if adjacency is None else Path(adjacency)
    neighbours = _read_adjacency(beside)
    if len(neighbours.sensors) != len(sensors) or neighbours.matrix.shape != (len(sensors),) * 2:
        rows, columns = neighbours.matrix.shape
        raise UserError(f"{beside}: expected {len(sensors)} x {len(sensors)} for the sensors of {path.name}, found {rows} x {columns}")
    place = {sensor: row for row, sensor in enumerate(neighbours.sensors)}
    if strange := [sensor for sensor in sensors if sensor not in place]:
        raise UserError(f"{beside}: no sensor '{strange[0]}', which {path.name} has")
    order = np.array([place[sensor] for sensor in sensors], np.int64)
    weights = neighbours.matrix[np.ix_(order, order)]
    src, dst = np.nonzero(weights)
    edges, edge_weights = np.stack([src, dst]).astype(np.int32), weights[src, dst].astype(np.float32)
    try:
        signal = Signal.from_readings(
            values[:, :, None], edges, edge_weights, _integers(sensors), path.stem, {"files": [path.name, beside.name]}
        )
        if times is not None:
            require_times(signal, times)
        return apply_signal_options(signal, missing, time_of_day, times)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _read_table(path: Path, key: str | None) -> _Readings:
    """Return sensors, readings [T, N], times of a frame in pandas' fixed form: axis0 its columns, axis1 its index, block0_values its
    numbers."""
    import h5py  # noqa: PLC0415 (heavy, and other formats do without)

    try:
        with h5py.File(path, "r") as file:
            frames = [name for name, group in file.items() if isinstance(group, h5py.Group) and "axis0" in group and "axis1" in group]
            if not frames:
                raise UserError(f"{path}: no table in pandas' fixed form; found {', '.join(file) or 'nothing'}")
            if key is None and len(frames) > 1:
                raise UserError(f"{path}: several tables, say which with key=: {', '.join(frames)}")
            name = frames[0] if key is None else key.strip("/")
            if name not in frames:
                raise unknown(f"key of {path}:", name, frames)
            group = file[name]
            blocks = [block for block in group if block.startswith("block") and block.endswith("_values")]
            if blocks != ["block0_values"]:
                raise UserError(f"{path}: {name}: expected columns of one type, found {len(blocks)} blocks of them")
            require_memory(path, sum(group[part].nbytes for part in ("axis0", "axis1", "block0_values")))
            columns = group["axis0"][()]
            steps = len(group["axis1"])
            values = group["block0_values"][()]
            times = _times(group["axis1"])
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: truncated or not pandas' HDF5 ({error})") from None
    if columns.dtype.kind not in "iuS" or values.dtype.kind not in "iuf" or values.shape != (steps, len(columns)):
        shapes = f"{values.dtype} {values.shape} for {steps} steps of {len(columns)} sensors"
        raise UserError(f"{path}: {name}: expected a number a step and sensor, found {shapes}")
    sensors = [column.decode("latin1") if isinstance(column, bytes) else str(column) for column in columns.tolist()]
    return _Readings(sensors, values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64), times)


def _times(index: h5py.Dataset) -> Times | None:
    """Return datetime64 [T] of a pandas index of local times, which are integers with a note of their kind; None for any other index."""
    kind = index.attrs.get("kind", "")
    unit = KIND.fullmatch(kind.decode("latin1") if isinstance(kind, bytes) else str(kind))
    if unit is None or "tz" in index.attrs or index.dtype.kind != "i":
        return None
    return np.asarray(index[()].astype(np.int64).view(f"datetime64[{unit[1] or 'ns'}]"))


def _find_adjacency(path: Path) -> Path:
    beside = sorted(path.parent.glob("adj_mx*.pkl"))
    if len(beside) != 1:
        names = ", ".join(file.name for file in beside) or "none"
        raise UserError(f"{path}: expected one adj_mx*.pkl beside it, found {names}; say which with adjacency=")
    return beside[0]


def _read_adjacency(path: Path) -> _AdjacencyMatrix:
    content = read_pickle(path)
    if isinstance(content, list | tuple) and len(content) == 3:
        sensors, _, matrix = (part.values if isinstance(part, PickledArray) else part for part in content)
        listed = isinstance(sensors, list | tuple) or (isinstance(sensors, np.ndarray) and sensors.ndim == 1)
        if listed and isinstance(matrix, np.ndarray) and matrix.ndim == 2 and matrix.dtype.kind in "iuf":
            return _AdjacencyMatrix([s.decode("latin1") if isinstance(s, bytes) else str(s) for s in sensors], matrix)
    raise UserError(f"{path}: expected [sensor ids, a dict of their indices, the matrix]")


def _integers(names: list[str]) -> Int64 | None:
    return np.array([int(name) for name in names], dtype=np.int64) if all(name.isdecimal() and len(name) < 19 for name in names) else None
