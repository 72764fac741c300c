"""HdfTable: a table of readings in pandas' HDF5, a row a step and a column a sensor."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.signals.calendar import Times
from chronoscale.datasets.unpacking import require_memory
from chronoscale.errors import UserError, unknown

if TYPE_CHECKING:
    import h5py

SUFFIXES = (".h5", ".hdf5")
KIND = re.compile(r"datetime64(?:\[(s|ms|us|ns)\])?")  # without a unit: pandas before 3


class HdfTable(NamedTuple):
    """Table of sensors' readings as pandas keeps it in HDF5: ids of the sensors, readings float [T, N] (NaN: none), and local times of the
    steps, datetime64 [T] in order as the file has them, None where its index has none."""

    sensors: list[str]
    values: NDArray[Any]
    times: Times | None


def read_hdf(path: Path, key: str | None) -> HdfTable:
    """Read a table in pandas' fixed form: axis0 its columns, axis1 its index, block0_values its numbers. key: of the table, where the file
    has several. Raises UserError for a file that is missing, damaged, or holds none or several."""
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
    return HdfTable(sensors, values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64), times)


def _times(index: h5py.Dataset) -> Times | None:
    """Return datetime64 [T] of a pandas index of local times, which are integers with a note of their kind; None for any other index."""
    kind = index.attrs.get("kind", "")
    unit = KIND.fullmatch(kind.decode("latin1") if isinstance(kind, bytes) else str(kind))
    if unit is None or "tz" in index.attrs or index.dtype.kind != "i":
        return None
    return np.asarray(index[()].astype(np.int64).view(f"datetime64[{unit[1] or 'ns'}]"))
