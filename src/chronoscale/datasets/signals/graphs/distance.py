"""Graph of sensors that are near each other, by a file of coordinates or of pairwise distances, as DCRNN's is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.signals.graphs.kernel import THRESHOLD, gaussian_kernel
from chronoscale.datasets.signals.graphs.positions import Positions, position_columns, read_positions
from chronoscale.datasets.signals.graphs.sensor_graph import SensorGraph
from chronoscale.datasets.signals.graphs.sensor_table import SensorTable
from chronoscale.datasets.signals.graphs.sensors import sensor_numbers, strangers
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

FROM, TO = ("from", "src", "source"), ("to", "dst", "target")


@dataclass(frozen=True, slots=True)
class DistanceGraph:
    """Recipe of a graph by distance: an edge weighs exp(-(distance / sigma)^2), and one that weighs less than `threshold` is left out.

    path: coordinates, a row a sensor (`read_positions`), between all of which there are distances, both ways; or distances, a row a pair,
    by their direction, as in DCRNN's distances_la_2012.csv (from, to, cost). names: of the columns. sigma: None for the standard deviation
    of the distances between sensors (as DCRNN's scripts/gen_adj_mx.py, self-pairs of the file included).
    """

    path: str
    names: Sequence[str] = ()
    threshold: float = THRESHOLD
    sigma: float | None = None

    def build(self, signal: Signal, training_steps: int) -> SensorGraph:
        """Build the graph of a signal's sensors. Raises UserError for a file that does not fit them, and where no edge is left."""
        path = Path(self.path)
        table = SensorTable.read(path)
        pairs = _pair_columns(table, self.names, signal)
        src, dst, distance, sigma, unit, passed = self._of_pairs(table, pairs, signal) if pairs else self._of_positions(signal)
        weight = gaussian_kernel(distance, sigma)
        strong = weight >= self.threshold
        if not strong.any():
            raise UserError(f"{path}: no two sensors are so near that an edge weighs {self.threshold:g} (sigma {sigma:.4g}{unit})")
        note = f"distance by {path.name}{passed}: sigma {sigma:.4g}{unit}, weights of at least {self.threshold:g}"
        return SensorGraph.of(src[strong], dst[strong], weight[strong], note)

    def places(self, signal: Signal) -> Positions | None:
        """Return where sensors stand, for a map; None where the file has distances."""
        if _pair_columns(SensorTable.read(Path(self.path)), self.names, signal):
            return None
        return read_positions(Path(self.path), self.names, signal)

    def _of_pairs(self, table: SensorTable, columns: tuple[str, str, str], signal: Signal) -> tuple[Int64, Int64, Float64, float, str, str]:
        src, dst, distance, passed = read_pairs(table, columns, signal)
        if (distance < 0).any():
            raise UserError(f"{table.path}: column {columns[2]}: {distance.min():g} is no distance")
        sigma = self.sigma if self.sigma is not None else float(distance.std())
        if sigma <= 1e-9 * float(distance.mean()):
            raise UserError(f"{table.path}: all distances are {distance[0]:g}, so that they have no deviation: say sigma")
        return src, dst, distance, sigma, "", passed

    def _of_positions(self, signal: Signal) -> tuple[Int64, Int64, Float64, float, str, str]:
        positions = read_positions(Path(self.path), self.names, signal)
        sigma = self.sigma if self.sigma is not None else _deviation(self.path, positions)
        reach = sigma * np.sqrt(-np.log(self.threshold)) if self.threshold > 0 else np.inf
        near = [_near(first, block, reach * (1 + 1e-9)) for first, block in positions.distances()]
        src, dst, distance = (np.concatenate(column) for column in zip(*near, strict=True))
        return src, dst, distance, sigma, positions.unit, ""


def _deviation(path: str, positions: Positions) -> float:
    try:
        return positions.deviation()
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _near(first: int, block: Float64, reach: float) -> tuple[Int64, Int64, Float64]:
    """Return the pairs of different sensors within reach: numbers and distances."""
    rows, columns = np.nonzero(block <= reach)
    different = rows + first != columns
    rows, columns = rows[different], columns[different]
    return (rows + first).astype(np.int64), columns.astype(np.int64), block[rows, columns]


def _pair_columns(table: SensorTable, names: Sequence[str], signal: Signal) -> tuple[str, str, str] | None:
    """Return the columns of a table of pairs: from, to, distance; None for a table of positions."""
    table.require(names)
    if position_columns(table, names) is not None:
        return None
    if len(names) == 3:
        known = [(sensor_numbers(table.texts(name), signal) >= 0).any() for name in names[:2]]
        return (names[0], names[1], names[2]) if all(known) else None
    named = {name.lower(): name for name in table.columns}
    ends = [next((named[word] for word in words if word in named), None) for words in (FROM, TO)]
    others = [name for name in table.columns if name not in ends]
    if names or ends[0] is None or ends[1] is None or not others:
        return None
    return ends[0], ends[1], others[0]


class Pairs(NamedTuple):
    """Rows of a table that join two sensors of a signal: their numbers int64 [E] each, and the third column float64 [E]. passed: phrase on
    rows with other sensors, which are passed over; '' for none."""

    src: Int64
    dst: Int64
    value: Float64
    passed: str


def read_pairs(table: SensorTable, columns: Sequence[str], signal: Signal) -> Pairs:
    """Read the rows of a table that join two sensors of a signal; the last row of a pair stays. Rows with other sensors are passed over, as
    DCRNN's code does, and counted. Raises UserError where none is left."""
    src, dst = (sensor_numbers(table.texts(name), signal) for name in columns[:2])
    known = (src >= 0) & (dst >= 0)
    if not known.any():
        raise strangers(table.path, table.texts(columns[0]), signal)
    value = table.numbers(columns[2])[known] if len(columns) > 2 else np.ones(int(known.sum()))
    others = int(np.count_nonzero(~known))
    passed = f", {others:,} of whose {len(known):,} rows name other sensors" if others else ""
    src, dst = src[known], dst[known]
    pair = (src * signal.num_nodes + dst)[::-1]
    last = np.sort(len(pair) - 1 - np.unique(pair, return_index=True)[1])
    return Pairs(src[last], dst[last], value[last], passed)
