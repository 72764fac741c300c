"""Generator of growth and deletion: snapshots cut from a static graph whose edge counts follow a trend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chronoscale.datasets.arrays import Float64, Int32, require, require_num_nodes
from chronoscale.datasets.generate.mixing import mix, require_mixing
from chronoscale.datasets.generate.rmat import QUADRANTS, rmat
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics, statistics_of
from chronoscale.errors import UserError


def stackoverflow_trend(snapshots: int) -> Float64:
    """Return the share of a static graph's edges that each generated snapshot has, float64 [snapshots]: slow start, steep rise, plateau.

    REAL (§7.1) follows Stackoverflow's edge counts but prints no curve; this logistic one, from 0.13 to 0.89, stands in for it. Raises
    UserError for less than one snapshot.
    """
    if snapshots < 1:
        raise UserError(f"snapshots: expected at least 1, got {snapshots}")
    x = np.linspace(0.0, 1.0, snapshots)
    trend: Float64 = 0.1 + 0.8 / (1.0 + np.exp(-8.0 * (x - 0.4)))
    return trend


@dataclass(frozen=True, slots=True, eq=False)
class GrowthGraph:
    """Generator of a dataset of snapshots by deleting some edges of a static graph at random and restoring others (BLAD's way; REAL §7.1).

    src, dst int32 [M]: the static graph, sorted by (dst, src), distinct. trend float64 [T] in (0, 1]: snapshot t has round(trend[t] * M)
    edges. change_rate: what a step replaces besides following the trend, deleted plus restored edges over the edges before it; less where
    the static graph has too few edges left out. Iterating draws the snapshots one by one, O(M) each, the same ones every time. Raises
    UserError for a trend or rate outside its range.
    """

    unit: ClassVar[str] = "snapshots"  # what it generates, one by one or in blocks
    num_nodes: int
    src: Int32
    dst: Int32
    trend: Float64
    change_rate: float
    seed: int = 0
    name: str = "growth"

    def __post_init__(self) -> None:
        require_num_nodes(self.num_nodes)
        Snapshot(self.num_nodes, self.src, self.dst)  # sorted, distinct, in range
        require(self.trend, "trend", "float64", (None,))
        if self.trend.size == 0 or not ((self.trend > 0) & (self.trend <= 1)).all():
            raise UserError("trend: expected at least one fraction, all in (0, 1]")
        if not 0 <= self.change_rate <= 1:
            raise UserError(f"change_rate: expected 0..1, got {self.change_rate}")

    @classmethod
    def of_static(
        cls, graph: Snapshot, snapshots: int, change_rate: float, seed: int = 0, trend: Float64 | None = None, name: str = "growth"
    ) -> GrowthGraph:
        """Build the generator of `snapshots` snapshots over any static graph (`Snapshot.from_edges` takes an edge list). trend: as in the
        class; None: `stackoverflow_trend`. Raises UserError for a trend of another length."""
        curve = stackoverflow_trend(snapshots) if trend is None else trend
        if curve.size != snapshots:
            raise UserError(f"trend: {curve.size} fractions for {snapshots} snapshots")
        return cls(graph.num_nodes, graph.src, graph.dst, curve, change_rate, seed, name)

    @classmethod
    def rmat(
        cls,
        nodes: int,
        edges: int,
        snapshots: int,
        change_rate: float,
        seed: int = 0,
        trend: Float64 | None = None,
        name: str = "growth",
        skew: float = QUADRANTS[0],
        mixing: float | None = None,
    ) -> GrowthGraph:
        """Build the generator of `snapshots` snapshots over a static R-MAT graph of `nodes` nodes and `edges` edges. trend: as in the
        class; None: `stackoverflow_trend`. skew: as in `rmat.rmat`, the higher, the more skewed the degrees. mixing: share of the static
        graph's edges that leave their community, as in `mixing.mix`; None: there are no communities."""
        require_mixing(nodes, mixing)
        src, dst = rmat(nodes, edges, seed, skew)
        ends = dst if mixing is None else mix(nodes, src.astype(np.int64), dst.astype(np.int64), mixing, seed)
        return cls.of_static(Snapshot.from_edges(nodes, src, ends), snapshots, change_rate, seed, trend, name)

    def __len__(self) -> int:
        return self.trend.size

    def __iter__(self) -> Iterator[Snapshot]:
        rng = np.random.default_rng([self.seed, 1])
        targets = np.maximum(1, np.rint(self.trend * self.src.size)).astype(np.int64)
        present = np.zeros(self.src.size, dtype=np.bool_)
        present[rng.choice(self.src.size, targets[0], replace=False, shuffle=False)] = True
        for t, target in enumerate(targets.tolist()):
            if t > 0:
                kept_edges, left_out = np.flatnonzero(present), np.flatnonzero(~present)
                growth = target - kept_edges.size
                replaced = round(self.change_rate * kept_edges.size / 2)
                added = min(replaced + max(growth, 0), left_out.size)
                removed = added - growth
                present[rng.choice(kept_edges, removed, replace=False, shuffle=False)] = False
                present[rng.choice(left_out, added, replace=False, shuffle=False)] = True
            yield Snapshot(self.num_nodes, self.src[present], self.dst[present])

    def sequence(self) -> SnapshotSequence:
        """Generate all snapshots in memory, as one dataset."""
        return SnapshotSequence.from_snapshots(self, self.name)

    def statistics(self) -> SnapshotStatistics:
        """Count nodes, edges and changes of every snapshot (`SnapshotStatistics`), for planners, while they are generated one by one."""
        return statistics_of(self)
