"""Subgraphs: the edges that operators sum over in a batch, of stand-ins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Int64
from chronoscale.harness.study.hooks.fast_epochs import SAMPLING, Epoch

LAST = 5  # batches, of which the largest is taken: late in a stream nodes have more neighbours


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """counts int64 [T]: edges of each target, by turns; source int64 [E]: the row of `rows` that each edge begins at, a node having one."""

    counts: Int64
    source: Int64
    rows: int

    @property
    def indptr(self) -> Int64:
        """Int64 [T + 1]: edges of target v are indptr[v] to indptr[v + 1]."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def target(self) -> Int64:
        """Int64 [E], ascending."""
        return np.repeat(np.arange(self.counts.size), self.counts)


def outer(found: Neighbourhood) -> Subgraph:
    """The outer hop of a batch, which has most of its edges; sources as compression leaves them, a row a node (FAST §5)."""
    tree = found.trees[0]
    hop = tree.hops[-1]
    once, place = unique_ids(found.nodes[tree.levels[-1][hop.slot[hop.there]]])
    return Subgraph(np.count_nonzero(hop.there, 1).astype(np.int64), place, once.size)


def largest(one: Epoch) -> Subgraph:
    """Of an epoch's last batches the one of most edges (FAST §6.3: "the largest sampled subgraph")."""
    part, size = one.deal.part, one.deal.size
    deal = BatchAssignment(range(max(part.stop - LAST * size, part.start), part.stop), 1, size)
    return max((outer(found) for _, found in one.data.sample_batches(deal, False, SAMPLING)), key=lambda graph: graph.source.size)
