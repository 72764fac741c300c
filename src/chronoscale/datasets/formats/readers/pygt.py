"""Reader of PyTorch Geometric Temporal's JSON: `edges`, readings a step under `FX` or `block`, `weights` where there are any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.formats.signal_options import Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.formats.tables.lines import damage_error, read_bytes
from chronoscale.datasets.signals.axes import Axes, time_first
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

READINGS = ("FX", "block")  # chickenpox; windmill output
READ = ("edges", "weights", *READINGS)


def read(path: str | Path, *, axes: Axes = None, missing: Missing = None, time_of_day: TimeOfDay = False) -> Signal:
    """Read a dataset of PyTorch Geometric Temporal's JSON files (a static graph and readings at its nodes) as a signal; one channel unless
    the readings have a third axis.

    Readings that are null, NaN or equal to `missing` are missing. The file has no times: `time_of_day` is steps a day, from midnight on.
    axes: order of the readings' first two. Raises UserError naming file and key, and where axes look swapped.
    """
    path = Path(path)
    try:
        content = json.loads(read_bytes(path))
    except UnicodeDecodeError as error:
        raise damage_error(path, error) from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON ({error.msg})") from None
    keys = [key for key in READINGS if isinstance(content, dict) and key in content]
    if not keys or "edges" not in content:
        raise UserError(f"{path}: expected an object with 'edges' and one of {', '.join(repr(k) for k in READINGS)}")
    if len(keys) > 1:
        raise UserError(f"{path}: readings under {' and '.join(keys)}; expected one of them")
    values = _number_array(path, content, keys[0], (float, int, type(None)), np.float32)
    edges = _number_array(path, content, "edges", (int,), np.int32)
    edges = edges if edges.size else np.zeros((0, 2), np.int32)
    if values.ndim not in (2, 3) or edges.ndim != 2 or edges.shape[1] != 2:
        raise UserError(f"{path}: expected {keys[0]} [T, N] or [T, N, C] and edges [E, 2], found {values.shape} and {edges.shape}")
    try:
        values = time_first(values, axes, int(edges.max(initial=-1)) + 1)
    except UserError as error:
        raise UserError(f"{path}: {keys[0]}: {error}") from None
    names = content.get("node_ids", ())
    if names and (not isinstance(names, dict | list) or len(names) != values.shape[1]):
        counted = len(names) if isinstance(names, dict | list) else repr(names)[:40]
        raise UserError(f"{path}: {counted} node_ids for {values.shape[1]} nodes in {keys[0]}")
    weight = _number_array(path, content, "weights", (float, int), np.float32) if "weights" in content else None
    try:
        values = values if values.ndim == 3 else values[:, :, None]
        account = {
            "files": [path.name],
            "arrays": [key for key in content if key in READ],
            "dropped": [k for k in content if k not in READ],
        }
        signal = Signal.from_readings(values, np.ascontiguousarray(edges.T), weight, name=path.stem, account=account)
        return apply_signal_options(signal, missing, time_of_day)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _number_array(path: Path, content: dict[str, Any], key: str, kinds: tuple[type, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Return a rectangular list as an array, if all its entries have these types: NumPy would also convert text, truth values and
    fractions.
    """
    try:
        entries = np.array(content[key], dtype=object)
        if {*map(type, entries.ravel().tolist())} <= {*kinds}:
            return entries.astype(dtype)
    except (ValueError, TypeError, OverflowError):
        pass
    raise UserError(f"{path}: {key}: expected a rectangular array of {'numbers' if float in kinds else 'integers'}")
