"""Reader of BasicTS's folders: `data.dat` (float32) with its shape in `desc.json`, and, if there is a graph, `adj_mx.pkl`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ValidationError

from chronoscale.datasets.account import Account
from chronoscale.datasets.formats.adjacency import AdjacencyMatrix
from chronoscale.datasets.formats.signal_options import Adjacency, Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.formats.tables.lines import read_bytes
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError
from chronoscale.validation_messages import mistake

DATA, DESCRIPTION, GRAPH = "data.dat", "desc.json", "adj_mx.pkl"
CLOCKS = ("time of day", "day of week", "day of month", "day of year")  # features that BasicTS's scripts add after the readings
SMALLEST = 4  # bytes of a float32


class _Description(BaseModel):
    """What is read of desc.json."""

    shape: tuple[int, int, int]
    feature_description: list[str] = []
    regular_settings: dict[str, object] = {}


def matches(path: Path, first: str) -> bool:
    """Return whether a folder is one of BasicTS's."""
    return (path / DATA).is_file() and (path / DESCRIPTION).is_file()


def read(path: str | Path, *, adjacency: Adjacency = None, missing: Missing = None, time_of_day: TimeOfDay = False) -> Signal:
    """Read a dataset of BasicTS as a signal: `data.dat`, float32 [T, N, C] as its `desc.json` says, with the matrix of `adj_mx.pkl` (or
    `adjacency`), of which edges i -> j are where it is not zero; without one there is no edge.

    Features that tell the time of day, or the day, are channels of the calendar, as `feature_description` names them; BasicTS adds them
    behind the readings. A value that stands for no reading (NULL_VAL) is told, and is missing where `missing` says so. Raises UserError
    naming a file that is missing, damaged, or of another size.
    """
    folder = Path(path)
    description = _read_description(folder / DESCRIPTION)
    steps, nodes, channels = description.shape
    file = folder / DATA
    expected, size = steps * nodes * channels * SMALLEST, file.stat().st_size if file.is_file() else 0
    if expected != size or min(description.shape) < 1:
        raise UserError(f"{file}: expected {expected:,} bytes, float32 {list(description.shape)} of {DESCRIPTION}, found {size:,}")
    values = np.array(np.memmap(file, np.float32, "r", shape=description.shape))
    matrix_file = folder / GRAPH if adjacency is None else Path(adjacency)
    edges, weights, files = np.zeros((2, 0), np.int32), None, [DATA, DESCRIPTION]
    if adjacency is not None or matrix_file.is_file():
        edges, weights = AdjacencyMatrix.read(matrix_file).edges(nodes, DATA)
        files.append(matrix_file.name)
    account: Account = {"files": files, **_null_value(description)}
    signal = Signal.from_readings(values, edges, weights, None, folder.name, account)
    try:
        with_calendar = Signal(
            values, edges, weights, signal.missing, None, folder.name, account=account, calendar=_count_clocks(description)
        )
        return apply_signal_options(with_calendar, missing, time_of_day)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from None


def _read_description(file: Path) -> _Description:
    try:
        return _Description.model_validate(json.loads(read_bytes(file)))
    except ValueError as error:
        reason = mistake(error) if isinstance(error, ValidationError) else f"not JSON ({error})"
        raise UserError(f"{file}: {reason}") from None


def _count_clocks(description: _Description) -> int:
    """How many of the last channels tell the time, by their names."""
    names = [name.lower() for name in description.feature_description]
    last = next((place for place, name in enumerate(reversed(names)) if name not in CLOCKS), len(names))
    return min(last, description.shape[2] - 1) if len(names) == description.shape[2] else 0


def _null_value(description: _Description) -> Account:
    null = description.regular_settings.get("NULL_VAL")
    if not isinstance(null, int | float) or null != null:
        return {}
    return {"no reading": f"desc.json says that {null:g} is none; the option missing={null:g} marks it"}
