"""Generator of a long evolving graph in the manner of DyGraph: arrivals, skewed degrees, churn in bursts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chronoscale.datasets.arrays import Int64, require_num_nodes
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics, statistics_of
from chronoscale.errors import UserError

_SEED_NODES = 0.2  # share of the nodes that is there at the start; the others arrive at a steady rate
_SWING = 0.25  # standard deviation of the log of the target size
_MEMORY = 0.99  # a step's carry-over of that swing: sizes wander over about a hundred snapshots
_PULL = 0.1  # share of the distance to the target size that a step goes
_BURST_TAIL = 1.5  # Pareto exponent of bursts: finite mean, infinite variance
_BURST_CAP = 0.5  # a burst replaces at most half of the edges


@dataclass(frozen=True, slots=True)
class EvolvingGraph:
    """Generator of a dataset of snapshots of a graph under insertions and deletions, for simulations of many snapshots (REAL App. G uses
    10,000).

    DyGraph (McCrabb et al., 2022) gives the ingredients, not the code. Nodes arrive at a steady rate. New edges choose both endpoints with
    density (rank / arrived) ** -skew, rank by arrival: at 0.5 the mean-field law of preferential attachment. A step replaces on average
    `churn` of the edges; a share `burst_rate` of the steps a Pareto-distributed multiple of it. The size wanders around a target that grows
    with the arrived nodes up to `edges`. Snapshot and change sizes therefore vary, the latter with a heavy tail. Memory is one graph;
    iterating twice gives the same snapshots. Raises UserError for parameters outside their range.
    """

    unit: ClassVar[str] = "snapshots"  # what it generates, one by one or in blocks
    nodes: int
    edges: int
    snapshots: int
    churn: float = 0.02
    burst_rate: float = 0.05
    skew: float = 0.5
    seed: int = 0
    name: str = "dygraph"

    def __post_init__(self) -> None:
        require_num_nodes(self.nodes)
        first_nodes = int(_SEED_NODES * self.nodes)
        if self.snapshots < 1 or first_nodes < 2:
            raise UserError(f"evolving graph: expected at least 1 snapshot and 10 nodes, got {self.snapshots} and {self.nodes}")
        if not 1 <= self.edges <= self.nodes * first_nodes // 10:
            raise UserError(f"evolving graph: expected 1..{self.nodes * first_nodes // 10} edges for {self.nodes} nodes, got {self.edges}")
        for field in ("churn", "burst_rate", "skew"):
            if not 0 <= getattr(self, field) < 1:
                raise UserError(f"evolving graph: {field} expected in [0, 1), got {getattr(self, field)}")

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the dataset, whether they have arrived or not."""
        return self.nodes

    def __len__(self) -> int:
        return self.snapshots

    def __iter__(self) -> Iterator[Snapshot]:
        rng = np.random.default_rng([self.seed, 2])
        arrived = np.linspace(_SEED_NODES, 1.0, self.snapshots) * self.nodes
        swing = rng.normal(0.0, _SWING)
        keys: Int64 = np.zeros(0, dtype=np.int64)
        for here in arrived.astype(np.int64).tolist():
            swing = _MEMORY * swing + rng.normal(0.0, _SWING * (1 - _MEMORY**2) ** 0.5)
            target = max(1, round(self.edges * here / self.nodes * min(np.exp(swing), 2.0)))
            change = self.churn * rng.exponential()
            if rng.random() < self.burst_rate:
                change *= 1.0 + rng.pareto(_BURST_TAIL)
            replaced = round(min(change, _BURST_CAP) * keys.size / 2)
            drift = round((target - keys.size) * _PULL) if keys.size else target
            removed, added = min(keys.size, replaced + max(-drift, 0)), replaced + max(drift, 0)
            keys = self._step(keys, here, removed, added, rng)
            yield Snapshot.from_keys(self.nodes, keys)

    def _step(self, keys: Int64, arrived: int, removed: int, added: int, rng: np.random.Generator) -> Int64:
        """Remove `removed` edges, add at most `added`: those that are drawn twice or were there before are dropped."""
        src, dst = ((arrived * rng.random(added) ** (1 / (1 - self.skew))).astype(np.int64) for _ in range(2))
        candidates = np.unique(edge_keys.pack(src, dst)[src != dst])
        new = candidates[~edge_keys.contains(keys, candidates)]
        if removed:
            keys = np.delete(keys, rng.choice(keys.size, removed, replace=False, shuffle=False))
        return edge_keys.merge(keys, new)

    def sequence(self) -> SnapshotSequence:
        """Generate all snapshots in memory, as one dataset: 8 bytes an edge and snapshot."""
        return SnapshotSequence.from_snapshots(self, self.name)

    def statistics(self) -> SnapshotStatistics:
        """Count nodes, edges and changes of every snapshot (`SnapshotStatistics`), for planners, while they are generated one by one."""
        return statistics_of(self)
