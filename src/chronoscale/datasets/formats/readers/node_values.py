"""Reader of PyTorch Geometric Temporal's traffic arrays: `node_values.npy` [T, N, C] beside `adj_mat.npy` [N, N] (METR-LA, PEMS-BAY)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.archive import read_array
from chronoscale.datasets.formats.signal_options import Adjacency, Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

SUFFIX = "node_values.npy"


def read(path: str | Path, *, adjacency: Adjacency = None, missing: Missing = None, time_of_day: TimeOfDay = False) -> Signal:
    """Read a traffic dataset of PyTorch Geometric Temporal as a signal: `Xnode_values.npy` [T, N, C] with `Xadj_mat.npy` [N, N] (or
    `adjacency`); edges i -> j where the matrix is not zero. Readings that are NaN or equal to `missing` are missing. The file has no times:
    `time_of_day` is steps a day, from midnight on.

    Raises UserError naming a file that is missing, damaged or of another shape.
    """
    path = Path(path)
    adjacency = path.with_name(path.name.removesuffix(SUFFIX) + "adj_mat.npy") if adjacency is None else Path(adjacency)
    values, weights = _read_numbers(path, 3), _read_numbers(adjacency, 2)
    if weights.shape != (values.shape[1],) * 2:
        raise UserError(f"{adjacency}: expected {values.shape[1]} x {values.shape[1]} for {path.name}, found {weights.shape}")
    src, dst = np.nonzero(weights)
    values = values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64)
    try:
        edges, edge_weights = np.stack([src, dst]).astype(np.int32), weights[src, dst].astype(np.float32)
        signal = Signal.from_readings(values, edges, edge_weights, name=path.parent.name, account={"files": [path.name, adjacency.name]})
        return apply_signal_options(signal, missing, time_of_day)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _read_numbers(path: Path, dimensions: int) -> NDArray[Any]:
    array = read_array(path)
    if array.ndim != dimensions or array.dtype.kind not in "iuf":
        raise UserError(f"{path}: expected numbers in {dimensions} dimensions")
    return array
