"""Reader of PyTorch Geometric Temporal's traffic arrays: `node_values.npy` [T, N, C] beside `adj_mat.npy` [N, N] (METR-LA, PEMS-BAY)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.archive import read_array
from chronoscale.datasets.formats.adjacency import AdjacencyMatrix
from chronoscale.datasets.formats.signal_options import Adjacency, Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.signals.axes import Axes, time_first
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

SUFFIX = "node_values.npy"


def read(
    path: str | Path, *, adjacency: Adjacency = None, axes: Axes = None, missing: Missing = None, time_of_day: TimeOfDay = False
) -> Signal:
    """Read a traffic dataset of PyTorch Geometric Temporal as a signal: `Xnode_values.npy` [T, N, C] with `Xadj_mat.npy` [N, N] (or
    `adjacency`); edges i -> j where the matrix is not zero. Readings that are NaN or equal to `missing` are missing. The file has no times:
    `time_of_day` is steps a day, from midnight on. axes: order of the first two.

    Raises UserError naming a file that is missing, damaged or of another shape, and where axes look swapped.
    """
    path = Path(path)
    adjacency = path.with_name(path.name.removesuffix(SUFFIX) + "adj_mat.npy") if adjacency is None else Path(adjacency)
    values, matrix = _read_numbers(path, 3), AdjacencyMatrix.read(adjacency)
    values = values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64)
    try:
        values = time_first(values, axes, exactly=matrix.square)
        edges, weights = matrix.edges(values.shape[1], path.name)
        signal = Signal.from_readings(values, edges, weights, name=path.parent.name, account={"files": [path.name, adjacency.name]})
        return apply_signal_options(signal, missing, time_of_day)
    except UserError as error:
        raise error if str(error).startswith(str(adjacency)) else UserError(f"{path}: {error}") from None


def _read_numbers(path: Path, dimensions: int) -> NDArray[Any]:
    array = read_array(path)
    if array.ndim != dimensions or array.dtype.kind not in "iuf":
        raise UserError(f"{path}: expected numbers in {dimensions} dimensions")
    return array
