"""AdjacencyMatrix: the matrix of a sensor graph, as datasets have it in files of several kinds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.archive import read_archive, read_array
from chronoscale.datasets.arrays import Float32, Int32
from chronoscale.datasets.formats.pickles.array_pickle import PickledArray, read_pickle
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.errors import UserError

PICKLES = (".pkl", ".pickle")


@dataclass(frozen=True, slots=True, eq=False)
class AdjacencyMatrix:
    """Matrix of a sensor graph, numbers [N, N], an edge i -> j where an entry is not zero; `sensors`: the ids of its rows, None where its
    file has none and rows are in the order of the readings."""

    path: Path
    matrix: NDArray[Any]
    sensors: list[str] | None = None

    @classmethod
    def read(cls, path: Path) -> AdjacencyMatrix:
        """Read a matrix from a pickle (DCRNN's [ids, dict of their indices, matrix], or the matrix alone), .npy, .npz with one matrix, or
        numbers between commas. Raises UserError for a file that is missing, damaged or none of these."""
        if path.suffix in PICKLES:
            return cls._of_pickle(path)
        if path.suffix == ".npy":
            return cls(path, _require_matrix(path, read_array(path)))
        if path.suffix == ".npz":
            matrices = [array for array in read_archive(path).values() if array.ndim == 2]
            if len(matrices) != 1:
                raise UserError(f"{path}: expected one matrix, found {len(matrices)} arrays of two dimensions")
            return cls(path, _require_matrix(path, matrices[0]))
        return cls(path, TextTable(path, separator=",").read_all().matrix())

    @classmethod
    def _of_pickle(cls, path: Path) -> AdjacencyMatrix:
        content = read_pickle(path)
        if isinstance(content, PickledArray):
            return cls(path, _require_matrix(path, content.values))
        if isinstance(content, list | tuple) and len(content) == 3:
            sensors, _, matrix = (part.values if isinstance(part, PickledArray) else part for part in content)
            listed = isinstance(sensors, list | tuple) or (isinstance(sensors, np.ndarray) and sensors.ndim == 1)
            listed = listed and all(isinstance(s, str | bytes | int | float | np.generic) for s in sensors)
            if listed and isinstance(matrix, np.ndarray) and matrix.ndim == 2 and matrix.dtype.kind in "iuf":
                return cls(path, matrix, [s.decode("latin1") if isinstance(s, bytes) else str(s) for s in sensors])
        raise UserError(f"{path}: expected [sensor ids, a dict of their indices, the matrix], or the matrix alone")

    @property
    def square(self) -> int | None:
        """Number of nodes; None where the matrix is not square."""
        rows, columns = self.matrix.shape
        return rows if rows == columns else None

    def edges(self, count: int, readings: str, sensors: list[str] | None = None) -> tuple[Int32, Float32]:
        """Return the edges int32 [2, E] and weights float32 [E] between the sensors of readings, in their order.

        count: how many there are. readings: their file, for messages. sensors: their ids, by which rows are found where the matrix has ids;
        None: rows are in their order. Raises UserError for a matrix of another size, and for a sensor that it does not have.
        """
        named = self.sensors is not None and sensors is not None
        if self.square != count or (self.sensors is not None and len(self.sensors) != count):
            rows, columns = self.matrix.shape
            raise UserError(f"{self.path}: expected {count} x {count} for the sensors of {readings}, found {rows} x {columns}")
        weights = self.matrix
        if named and self.sensors is not None and sensors is not None:
            place = {sensor: row for row, sensor in enumerate(self.sensors)}
            if strange := [sensor for sensor in sensors if sensor not in place]:
                raise UserError(f"{self.path}: no sensor '{strange[0]}', which {readings} has")
            order = np.array([place[sensor] for sensor in sensors], np.int64)
            weights = weights[np.ix_(order, order)]
        src, dst = np.nonzero(weights)
        with np.errstate(over="ignore"):  # a signal refuses weights that are not finite
            return np.stack([src, dst]).astype(np.int32), weights[src, dst].astype(np.float32)


def _require_matrix(path: Path, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise UserError(f"{path}: expected numbers in 2 dimensions")
    return array
