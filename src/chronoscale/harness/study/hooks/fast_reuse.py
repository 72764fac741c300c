"""Reuse: how often operators on a GPU would find what they read in its caches; a model of least recent use, not a measurement.

A block runs on SM number block mod SMs, an SM's blocks one after another, SMs at one pace. L1 has what its SM reads, L2 what no L1 had and
the atomic sums, which go there at once. Of the reads those of features or scores alone, no indices; lines are placed in 16 ways.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.cuda_ext.sampling.processor_caches import hits
from chronoscale.datasets.arrays import Bool, Int64
from chronoscale.harness.study.hooks.fast_epochs import Subgraph
from chronoscale.harness.study.hooks.fast_warps import A100, LANES, Gpu

SECTOR, WAYS = 32, 16


class Reads(NamedTuple):
    """Memory accesses of a GPU kernel in order, block by block, from which FAST's Tables 2 and 5 model cache hits.

    block, unit, int64 [n]: which thread block reads which unit (a row of features, or a sector of 32 bytes) of `size` bytes. atomic, bool
    [n]: units that are added to, which bypass L1.
    """

    block: Int64
    unit: Int64
    atomic: Bool
    size: int


class Hits(NamedTuple):
    """Modelled hit rates of a GPU's L1 and L2, 0 to 1, for FAST's Tables 2 and 5; each of what reaches it, NaN where nothing does."""

    l1: float
    l2: float


def by_node(graph: Subgraph, width: int, nodes: int) -> Reads:
    """Return the memory reads of a node-parallel aggregation, for modelled cache hits (FAST's Tables 2 and 5).

    Each thread block sums the sources' rows of `nodes` targets. width: float32 a row; a row is a unit.
    """
    return Reads(graph.target // nodes, graph.source, np.zeros(graph.source.size, np.bool_), 4 * width)


def by_edge(graph: Subgraph, width: int, edges: int) -> Reads:
    """Return the memory reads of an edge-parallel aggregation, for modelled cache hits (FAST's Tables 2 and 5).

    Each thread block has `edges` edges; a source's row is read and added to its target's row by atomics. width: float32 a row; a row is a
    unit.
    """
    block = np.arange(graph.source.size) // edges
    unit = np.stack([graph.source, graph.rows + graph.target], 1).ravel()
    return Reads(block.repeat(2), unit, np.tile([False, True], graph.source.size), 4 * width)


def softmax_looping(graph: Subgraph, heads: int, nodes: int) -> Reads:
    """Return the memory reads of FAST's edge softmax, for modelled cache hits (Tables 2 and 5): a thread a node and head, in a loop.

    nodes: of a thread block. Three passes over the scores [E, heads]; in each a warp reads its threads' k-th scores together.
    """
    return _passes(graph, heads, nodes, LANES // heads, 3)


def softmax_shuffling(graph: Subgraph, heads: int, nodes: int, width: int) -> Reads:
    """Return the memory reads of dGNN's edge softmax, for modelled cache hits (FAST's Tables 2 and 5): `width` lanes of a warp a node.

    nodes: of a thread block. Heads come one after another; scores stay in registers between passes, so that each is read once.
    """
    edge = np.arange(graph.source.size)
    block, warp = graph.target // nodes, graph.target // (LANES // width)
    return _together(block.repeat(heads), warp.repeat(heads), np.tile(np.arange(heads), edge.size), _scores(edge, heads).ravel())


def _passes(graph: Subgraph, heads: int, nodes: int, of_warp: int, passes: int) -> Reads:
    edge = np.arange(graph.source.size)
    step = edge - graph.indptr[graph.target]
    most = int(graph.counts.max(initial=0))
    block, warp = graph.target // nodes, graph.target // of_warp
    parts = [
        (block.repeat(heads), warp.repeat(heads), (number * most + step).repeat(heads), _scores(edge, heads).ravel())
        for number in range(passes)
    ]
    return _together(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _scores(edge: Int64, heads: int) -> Int64:
    """Sectors of the scores of edges [E], int64 [E, heads]."""
    return np.asarray((edge[:, None] * heads + np.arange(heads)) * 4 // SECTOR)


def _together(block: Int64, warp: Int64, step: Int64, sector: Int64) -> Reads:
    """What a warp reads in a step is asked for once a sector; warps of a block take turns step by step."""
    steps, warps, sectors = (int(part.max(initial=0)) + 1 for part in (step, warp, sector))
    touched = np.unique(((block * steps + step) * warps + warp) * sectors + sector)
    return Reads(touched // (steps * warps * sectors), touched % sectors, np.zeros(touched.size, np.bool_), SECTOR)


def hit_rates(reads: Reads, gpu: Gpu = A100, warm: bool = False) -> Hits:
    """Model which reads hit a GPU's L1 and L2 by least recent use, for FAST's Tables 2 and 5.

    L1's rate is of reads alone, without atomics; L2's of what missed L1, and of atomics. warm: whether the kernel before has written all
    that is read, in order, so that L2 has the last of it.
    """
    sm, turn = reads.block % gpu.sms, np.empty(reads.block.size, np.int64)
    by_sm = np.argsort(sm, kind="stable")
    starts = np.searchsorted(sm[by_sm], np.arange(gpu.sms))
    turn[by_sm] = np.arange(sm.size) - starts[sm[by_sm]]
    order = np.lexsort((sm, turn))  # SMs at one pace
    sm, unit, atomic = sm[order].astype(np.int32), reads.unit[order], reads.atomic[order]
    read = ~atomic
    beyond = np.ones(unit.size, np.bool_)
    beyond[read] = ~_found(unit[read], sm[read], gpu.sms, gpu.l1, reads.size)
    before = np.unique(unit) if warm else unit[:0]
    reached = np.concatenate([before, unit[beyond]])
    second = _found(reached, np.zeros(reached.size, np.int32), 1, gpu.l2, reads.size)[before.size :]
    return Hits(_mean(~beyond[read]), _mean(second))


def _found(unit: Int64, cache: np.ndarray, caches: int, size: int, of: int) -> Bool:
    return hits(unit, cache, caches, max(size // (of * WAYS), 1), WAYS)


def _mean(hit: Bool) -> float:
    return float(hit.mean()) if hit.size else float("nan")
