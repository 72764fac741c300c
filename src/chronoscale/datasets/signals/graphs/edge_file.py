"""Graph of sensors from a file of its own: a list of edges, or a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chronoscale.datasets.formats.adjacency import PICKLES, AdjacencyMatrix
from chronoscale.datasets.formats.tables.lines import first_line, is_number
from chronoscale.datasets.signals.graphs.distance import read_pairs
from chronoscale.datasets.signals.graphs.sensor_graph import SensorGraph
from chronoscale.datasets.signals.graphs.sensor_table import SensorTable
from chronoscale.datasets.signals.graphs.sensors import sensor_names, sensor_numbers
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

LENGTHS = ("cost", "distance", "length", "km", "miles")


@dataclass(frozen=True, slots=True)
class FileGraph:
    """Recipe of a graph that a file has: a list of edges (from, to and, if there is a third column, the weight), or a matrix with an edge
    i -> j where an entry is not zero: .npy, .npz, .pkl as DCRNN's, or as many numbers between commas in a line as there are sensors."""

    path: str

    def build(self, signal: Signal, training_steps: int) -> SensorGraph:
        """Build the graph of a signal's sensors. Raises UserError for a file that does not fit them, and for edges weighed by a length."""
        path = Path(self.path)
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        if path.suffix in (*PICKLES, ".npy", ".npz") or self._is_matrix(path, signal.num_nodes):
            names = None if signal.node_ids is None else sensor_names(signal)
            edges, weight = AdjacencyMatrix.read(path).edges(signal.num_nodes, "the readings", names)
            return SensorGraph(edges, weight, f"matrix of {path.name}")
        table = SensorTable.read(path, self._has_header(path, signal))
        columns = table.columns[:3]
        if len(columns) < 2:
            raise UserError(f"{path}: expected from, to and, if edges have weights, a third column, found one")
        if len(columns) > 2 and columns[2].lower() in LENGTHS:
            raise UserError(
                f"{path}: column {columns[2]} has lengths, and the longer an edge, the less it should weigh: "
                f"graph: {{kind: distance, path: {path}}} makes weights of them"
            )
        src, dst, weight_of_rows = read_pairs(table, columns, signal)
        return SensorGraph.of(src, dst, weight_of_rows if len(columns) > 2 else None, f"edges of {path.name}")

    def places(self, signal: Signal) -> None:
        """Return where sensors stand: nothing says so."""
        return None

    @staticmethod
    def _is_matrix(path: Path, sensors: int) -> bool:
        entries = first_line(path).strip().split(",")
        return len(entries) == sensors and sensors > 3 and all(map(is_number, entries))

    @staticmethod
    def _has_header(path: Path, signal: Signal) -> bool:
        """Whether the first line is no edge: neither of its ends is a sensor."""
        ends = first_line(path).replace(",", " ").replace(";", " ").split()[:2]
        return not (sensor_numbers(ends, signal) >= 0).any()
