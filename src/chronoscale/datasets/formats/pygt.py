"""PyTorch Geometric Temporal JSON: `edges`, readings a step under `FX` or `block`, `weights` where there are any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.formats.columns import damaged, open_binary
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

READINGS = ("FX", "block")  # chickenpox; windmill output


def read(path: str | Path) -> Signal:
    """Read a static graph with a signal, one channel unless the readings have a third axis.

    null and NaN are missing readings. Raises UserError naming file and key.
    """
    path = Path(path)
    try:
        with open_binary(path) as file:
            content = json.load(file)
    except (UnicodeDecodeError, EOFError) as error:
        raise damaged(path, error) from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON ({error.msg})") from None
    key = next((k for k in READINGS if isinstance(content, dict) and k in content), None)
    if key is None or "edges" not in content:
        raise UserError(f"{path}: expected an object with 'edges' and one of {', '.join(repr(k) for k in READINGS)}")
    values = _array(path, content, key, np.float32)
    edges = _array(path, content, "edges", np.int32)
    if values.ndim not in (2, 3) or edges.ndim != 2 or edges.shape[1] != 2:
        raise UserError(f"{path}: expected {key} [T, N] or [T, N, C] and edges [E, 2], found {values.shape} and {edges.shape}")
    if "node_ids" in content and len(content["node_ids"]) != values.shape[1]:
        raise UserError(f"{path}: {len(content['node_ids'])} node_ids for {values.shape[1]} nodes in {key}")
    weight = _array(path, content, "weights", np.float32) if "weights" in content else None
    try:
        values = values if values.ndim == 3 else values[:, :, None]
        return Signal.from_readings(values, np.ascontiguousarray(edges.T), weight, name=path.stem)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _array(path: Path, content: dict[str, Any], key: str, dtype: type[np.generic]) -> NDArray[Any]:
    try:
        return np.array(content[key], dtype=dtype)
    except (ValueError, TypeError, OverflowError):
        raise UserError(f"{path}: {key}: expected a rectangular array of numbers") from None
