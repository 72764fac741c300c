"""Rival that looks at neighbours: two nodes that met the same nodes of late will meet."""

from __future__ import annotations

import numpy as np

from chronoscale.batching.rivals.links.rival import LinkRival
from chronoscale.datasets.arrays import Float64, Int32, Int64
from chronoscale.datasets.streams.tcsr import TCSR

LATEST = 10  # events of a node whose other ends are its neighbours
CELLS = 1 << 22  # compared at once


class CommonNeighbours(LinkRival):
    """Rival that scores a pair by the neighbours that both ends have in common, among the last LATEST events of each (Liben-Nowell and
    Kleinberg 2003, section 3): the number of pairs of events, one of each end, that share a neighbour.

    In a bipartite graph the ends of a pair never share one. There the source's neighbours are those of its neighbours, two hops away.
    """

    name = "common recent neighbours"

    def __init__(self, graph: TCSR, bipartite: bool) -> None:
        """graph: of the events in both directions."""
        self._graph, self._hops = graph, 2 if bipartite else 1
        of = "neighbours of its neighbours" if bipartite else "neighbours"
        self.meaning = f"how often one of the source's {of} is one of the destination's, among the last {LATEST} events of each node"

    def _score(self, src: Int64, dst: Int64, known: Int64) -> Float64:
        near, row = self._neighbours(src, known, self._hops)
        far, column = self._neighbours(dst, known, 1)
        common = np.zeros(src.size)
        size = max(CELLS // max(near.shape[1] * LATEST, 1), 1)
        for at in range(0, src.size, size):
            block = slice(at, at + size)
            mine, other = near[row[block]], far[column[block]]
            common[block] = ((mine[:, :, None] == other[:, None, :]) & (mine >= 0)[:, :, None]).sum((1, 2))
        return common

    def _neighbours(self, node: Int64, known: Int64, hops: int) -> tuple[Int32, Int64]:
        """Return the nodes `hops` away from each node before its event `known`, int32 [U, LATEST ** hops], -1 where there are fewer, of the
        different ones; and the row of each, int64 [Q]."""
        different, row = np.unique((node << 32) | known, return_inverse=True)
        near, before = (different >> 32).astype(np.int32)[:, None], (different & 0xFFFFFFFF).astype(np.int32)
        for _ in range(hops):
            near = self._latest(near, before)
        return near, row

    def _latest(self, node: Int32, before: Int32) -> Int32:
        """Return the other ends of the last events of nodes [U, w] before event `before` [U], int32 [U, w * LATEST]; -1 for none."""
        sampled = self._graph.sample(node.ravel(), np.repeat(before, node.shape[1]), LATEST)
        return sampled.neighbor.reshape(len(node), -1)
