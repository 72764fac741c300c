"""Positions of sensors, by latitude and longitude or on a plane, read from a file, and the distances between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.signals.graphs.sensor_table import SensorTable
from chronoscale.datasets.signals.graphs.sensors import are_named, sensor_names, sensor_numbers, strangers
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

SAMPLED = 2_000  # sensors between which distances are measured for their deviation
EARTH_KM = 6371.0088  # mean radius
LATITUDES, LONGITUDES = ("lat", "latitude"), ("lon", "lng", "long", "longitude")


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Positions of a signal's sensors, float64 [N, 2]: latitude and longitude in degrees where `geographic` (distances are km on a great
    circle), else x and y in any unit (distances are straight). Raises UserError for degrees that no place has."""

    points: Float64
    geographic: bool

    def __post_init__(self) -> None:
        for name, column, most in (("latitude", 0, 90), ("longitude", 1, 360)) if self.geographic else ():
            if (beyond := np.abs(self.points[:, column]) > most).any():
                raise UserError(f"{name} {self.points[np.argmax(beyond), column]:g} is beyond {most}: are the columns swapped?")

    @property
    def unit(self) -> str:
        """The unit of distances, for people; '' on a plane."""
        return " km" if self.geographic else ""

    def distances(self) -> Iterator[tuple[int, Float64]]:
        """Yield the distances between all sensors in blocks of rows: the first row's sensor, and float64 [rows, N]."""
        from sklearn.metrics import pairwise_distances_chunked  # noqa: PLC0415 (heavy, and few graphs need it)

        metric, scale = ("haversine", EARTH_KM) if self.geographic else ("euclidean", 1.0)
        first = 0
        for block in pairwise_distances_chunked(self._coordinates(), metric=metric, working_memory=64):
            yield first, block * scale
            first += len(block)

    def deviation(self) -> float:
        """Return the standard deviation of the distances between different sensors; of more than SAMPLED, of so many, evenly
        among them. Raises UserError where all are equal, so that there is none to measure them by."""
        if len(self.points) > SAMPLED:
            return Positions(self.points[np.arange(SAMPLED) * len(self.points) // SAMPLED], self.geographic).deviation()
        count = len(self.points) * (len(self.points) - 1)
        mean = sum(float(block.sum()) for _, block in self.distances()) / max(count, 1)
        squares = 0.0
        for first, block in self.distances():
            apart = np.square(block - mean)
            rows = np.arange(len(block))
            squares += float(apart.sum() - apart[rows, rows + first].sum())
        deviation = float(np.sqrt(squares / max(count, 1)))
        if deviation <= 1e-9 * mean or not count:
            raise UserError("all sensors are equally far apart, so that their distances have no deviation: say sigma")
        return deviation

    def nearest(self, neighbours: int) -> tuple[Int64, Float64]:
        """Find the nearest other sensors of each: their numbers and distances, [N, neighbours] each. Raises UserError for too few."""
        from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415 (heavy, and few graphs need it)

        if neighbours >= len(self.points):
            raise UserError(f"graph.neighbours: {neighbours} of each sensor, and there are {len(self.points)} sensors in all")
        tree = NearestNeighbors(n_neighbors=neighbours, metric="haversine" if self.geographic else "euclidean", algorithm="ball_tree")
        far, nearest = tree.fit(self._coordinates()).kneighbors()
        return nearest.astype(np.int64), far * (EARTH_KM if self.geographic else 1.0)

    def _coordinates(self) -> Float64:
        return np.radians(self.points) if self.geographic else self.points


def position_columns(table: SensorTable, names: Sequence[str]) -> tuple[str, str, bool] | None:
    """Find the columns of a file that place sensors: latitude and longitude, or x and y, and whether they are geographic; None for none.

    names: columns that may be meant; none: all. A column is known by the last word of its name, as in `node_lat`.
    """
    last = {name.lower().rpartition("_")[2]: name for name in reversed(names or table.columns)}
    for firsts, seconds, geographic in ((LATITUDES, LONGITUDES, True), (("x",), ("y",), False)):
        pair = [next((last[word] for word in words if word in last), None) for words in (firsts, seconds)]
        if pair[0] is not None and pair[1] is not None:
            return pair[0], pair[1], geographic
    return None


def read_positions(path: Path, names: Sequence[str], signal: Signal) -> Positions:
    """Read the positions of a signal's sensors from a file with a row a sensor.

    names: of its columns: [first, second coordinate] or [sensor, first, second]; none: those that are called so. Rows are found by the
    column that holds the sensors' names, whatever it is called; else they are as many as sensors, in their order, which holds where these
    have no ids of their own. Raises UserError for a file that does not say where all sensors are.
    """
    table = SensorTable.read(path)
    table.require(names)
    if names and len(names) not in (2, 3):
        raise UserError(f"graph.names: expected [first, second coordinate] or [sensor, first, second], got {list(names)}")
    columns = position_columns(table, names[-2:])
    if columns is None and not names:
        raise UserError(
            f"{path}: no columns lat and lon, or x and y, among {', '.join(table.columns)}; say which with names: [sensor, x, y]"
        )
    first, second, geographic = columns or (names[-2], names[-1], False)
    rows = _rows(table, [names[0]] if len(names) == 3 else [name for name in table.columns if name not in (first, second)], signal)
    try:
        return Positions(np.stack([table.numbers(first), table.numbers(second)], 1)[rows], geographic)
    except UserError as error:
        raise error if str(error).startswith(str(path)) else UserError(f"{path}: {error}") from None


def _rows(table: SensorTable, candidates: Sequence[str], signal: Signal) -> Int64:
    """Return the row of each sensor, int64 [N]."""
    best: tuple[int, str, Int64] | None = None
    for name in candidates:
        numbers = sensor_numbers(table.texts(name), signal)
        rows = np.full(signal.num_nodes, -1, np.int64)
        rows[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
        known = int(np.count_nonzero(rows >= 0))
        if best is None or known > best[0]:
            best = known, name, rows
    if best is not None and best[0] == signal.num_nodes:
        return best[2]
    if not are_named(signal) and len(table.frame) == signal.num_nodes and (best is None or best[0] == 0 or len(candidates) > 1):
        return np.arange(signal.num_nodes, dtype=np.int64)
    if best is None or not best[0]:
        if not are_named(signal):
            raise UserError(
                f"{table.path}: {len(table.frame)} rows for {signal.num_nodes} sensors, and no column with their numbers from 0"
            )
        raise strangers(table.path, table.texts(candidates[0]) if candidates else [], signal)
    lacking = sensor_names(signal)[int(np.argmin(best[2] >= 0))]
    raise UserError(f"{table.path}: no row for sensor '{lacking}' in column {best[1]}")
