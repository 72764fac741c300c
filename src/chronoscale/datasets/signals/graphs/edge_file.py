"""Graph of sensors from a file of its own: a list of edges, or a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chronoscale.datasets.formats.adjacency import PICKLES, AdjacencyMatrix
from chronoscale.datasets.formats.tables.lines import first_line
from chronoscale.datasets.signals.graphs.distance import read_pairs
from chronoscale.datasets.signals.graphs.sensor_graph import SensorGraph
from chronoscale.datasets.signals.graphs.sensor_table import SensorTable
from chronoscale.datasets.signals.graphs.sensors import are_named, sensor_names, sensor_numbers
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

LENGTHS = ("cost", "distance", "length", "km", "miles")


@dataclass(frozen=True, slots=True)
class FileGraph:
    """Recipe of a graph that a file has: a list of edges (from, to and, if there is a third column, the weight), or a matrix with an edge
    i -> j where an entry is not zero: .npy, .npz, .pkl as DCRNN's, or a text of as many rows and columns as there are sensors."""

    path: str

    def build(self, signal: Signal, training_steps: int) -> SensorGraph:
        """Build the graph of a signal's sensors. Raises UserError for a file that does not fit them, and for edges weighed by a length."""
        path = Path(self.path)
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        matrix = AdjacencyMatrix.read(path) if path.suffix in (*PICKLES, ".npy", ".npz") else _text_matrix(path, signal)
        if matrix is not None:
            edges, weight = matrix.edges(signal.num_nodes, "the readings", sensor_names(signal) if are_named(signal) else None)
            return SensorGraph(edges, weight, f"matrix of {path.name}")
        table = SensorTable.read(path, self._has_header(path, signal))
        columns = table.columns
        if not 2 <= len(columns) <= 3:
            raise UserError(
                f"{path}: expected from, to and, if edges have weights, a third column, or a matrix, found {len(columns)} columns"
            )
        if len(columns) > 2 and columns[2].lower() in LENGTHS:
            raise UserError(
                f"{path}: column {columns[2]} has lengths, and the longer an edge, the less it should weigh: "
                f"graph: {{kind: distance, path: {path}}} makes weights of them"
            )
        pairs = read_pairs(table, columns, signal)
        return SensorGraph.of(pairs.src, pairs.dst, pairs.value if len(columns) > 2 else None, f"edges of {path.name}{pairs.passed}")

    def places(self, signal: Signal) -> None:
        """Return where sensors stand: nothing says so."""
        return None

    @staticmethod
    def _has_header(path: Path, signal: Signal) -> bool:
        """Whether the first line is no edge: neither of its ends is a sensor."""
        ends = first_line(path).replace(",", " ").replace(";", " ").split()[:2]
        return not (sensor_numbers(ends, signal) >= 0).any()


def _text_matrix(path: Path, signal: Signal) -> AdjacencyMatrix | None:
    """Return the matrix of a text with as many rows and columns as a signal has sensors, with or without their names above and before it;
    None for another text. Raises UserError for a table of three sensors, which may be a matrix or edges with weights."""
    table = SensorTable.read(path)
    rows, columns = len(table.frame), table.columns
    indexed = len(columns) == rows + 1
    if rows != signal.num_nodes or len(columns) - indexed != rows:
        return None
    if rows <= len(("from", "to", "weight")):
        raise UserError(f"{path}: {rows} rows and {len(columns)} columns for {rows} sensors are a matrix or edges; save a matrix as .npy")
    shown = columns[indexed:]
    named = (sensor_numbers(shown, signal) >= 0).all() and len({*shown}) == rows
    matrix = np.stack([table.numbers(name) for name in shown], 1)
    if indexed and named and table.texts(columns[0]) != shown:
        raise UserError(f"{path}: names before the rows are not those above the columns, in their order")
    return AdjacencyMatrix(path, matrix, shown if named else None)
