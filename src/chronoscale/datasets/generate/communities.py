"""Generator of communities: a stochastic block model whose edges evolve, with features that tell, in part, which community a node is of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from chronoscale.datasets.arrays import Float32, Int32, Int64, require_num_nodes
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import MAX_CLASSES, Snapshot, SnapshotSequence
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class CommunityGraph:
    """Generator of a dataset of snapshots and features of a graph with communities: every node is of one of `classes` communities, drawn
    evenly; `edges` drawn a snapshot, less repeated ones and self-edges.

    deletes: whether snapshots are cut from one static graph of the communities, of `edges` drawn edges, by deleting some at random and
    restoring others, as REAL made Arxiv's (`GrowthGraph`, after Stackoverflow's trend); `churn` is then what a step replaces besides.
    inside: share of the edges whose ends are drawn from one community. churn: share of the edges that a step draws anew. features: width of
    unit Gaussian features around the community's mean, whose numbers have deviation `apart`. unlabelled: share of the nodes, drawn at
    random, whose class is hidden. Iterating draws the snapshots one by one, the same ones every time.

    Raises UserError for shares outside [0, 1] and counts that cannot be.
    """

    unit: ClassVar[str] = "snapshots"
    nodes: int
    edges: int
    snapshots: int
    classes: int
    inside: float = 0.8
    churn: float = 0.1
    features: int = 16
    apart: float = 0.5
    unlabelled: float = 0.2
    deletes: bool = False
    seed: int = 0
    name: str = "communities"

    def __post_init__(self) -> None:
        require_num_nodes(self.nodes)
        for key in ("inside", "churn", "unlabelled"):
            if not 0 <= getattr(self, key) <= 1:
                raise UserError(f"communities: {key}: expected a share in 0..1, got {getattr(self, key):g}")
        if min(self.edges, self.snapshots, self.features) < 1 or not self.apart >= 0:
            raise UserError("communities: expected edges, snapshots and features of at least 1, apart of at least 0")
        if not 1 <= self.classes <= min(self.nodes, MAX_CLASSES):
            raise UserError(f"communities: classes: expected 1..{min(self.nodes, MAX_CLASSES)}, got {self.classes}")

    def __len__(self) -> int:
        return self.snapshots

    def __iter__(self) -> Iterator[Snapshot]:
        draw, community = np.random.default_rng([self.seed, 1]), self._communities()
        order = np.argsort(community, kind="stable")
        first = np.searchsorted(community[order], np.arange(self.classes + 1))
        src, dst = self._drawn(draw, self.edges, community, order, first)
        if self.deletes:
            static = Snapshot.from_edges(self.nodes, src, dst).without_self_edges()
            yield from GrowthGraph.of_static(static, self.snapshots, self.churn, self.seed)
            return
        for t in range(self.snapshots):
            if t:
                anew = draw.choice(self.edges, round(self.churn * self.edges), replace=False)
                src[anew], dst[anew] = self._drawn(draw, len(anew), community, order, first)
            yield Snapshot.from_edges(self.nodes, src, dst).without_self_edges()

    def _communities(self) -> Int32:
        """Return the community of every node, int32 [nodes]; each has at least one node."""
        of = np.arange(self.nodes, dtype=np.int32) % self.classes
        return np.random.default_rng([self.seed, 2]).permutation(of)

    def _drawn(self, draw: np.random.Generator, count: int, community: Int32, order: Int64, first: Int64) -> tuple[Int64, Int64]:
        src, dst = draw.integers(self.nodes, size=(2, count))
        own = community[src]
        near = order[first[own] + draw.integers(first[own + 1] - first[own])]
        return src, np.where(draw.random(count) < self.inside, near, dst)

    def sequence(self) -> SnapshotSequence:
        """Generate all snapshots of the graph in memory, as a dataset with features of nodes and their classes."""
        return replace(SnapshotSequence.from_snapshots(self, self.name), features=self._features(), classes=self._labels())

    def _features(self) -> Float32:
        draw = np.random.default_rng([self.seed, 3])
        means = draw.standard_normal((self.classes, self.features), np.float32) * np.float32(self.apart)
        return means[self._communities()] + draw.standard_normal((self.nodes, self.features), np.float32)

    def _labels(self) -> Int32:
        hidden = np.random.default_rng([self.seed, 4]).choice(self.nodes, round(self.unlabelled * self.nodes), replace=False)
        labels = self._communities()
        labels[hidden] = -1
        return labels
