"""Warps: how many of a warp's threads have work in reductions over a subgraph, and how many warps an SM has; exact counts, on no GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Int64

LANES = 32


@dataclass(frozen=True, slots=True)
class Gpu:
    """Streaming multiprocessors, warps and blocks that one holds; bytes of an SM's L1 and of the L2; of a cache line and of a sector."""

    sms: int = 108
    warps: int = 64
    blocks: int = 32
    l1: int = 192 << 10
    l2: int = 40 << 20


A100 = Gpu()


def looping(counts: Int64, threads: int = 1) -> float:
    """Mean of a warp's threads that are active where each of `threads` a target goes over its edges (node-parallel; FAST's edge softmax
    with a thread a head): a warp loops as long as its longest row. NaN without an edge."""
    of = np.repeat(counts, threads)
    rows = np.concatenate([of, np.zeros(-of.size % LANES, np.int64)]).reshape(-1, LANES)
    loops = int(rows.max(1).sum()) if rows.size else 0
    return float(of.sum() / loops) if loops else float("nan")


def apiece(edges: int) -> float:
    """Where each thread has an edge (edge-parallel): all but those of the last warp. NaN without an edge."""
    return edges / -(-edges // LANES) if edges else float("nan")


def shuffling(counts: Int64, width: int) -> tuple[float, float]:
    """Where `width` lanes reduce a target's edges by shuffles, each lane one edge: means of a warp's lanes that have an edge, and of those
    that a step of the reduction's tree leaves with a partner that has one. All lanes are active, whichever work they have.

    A width that is no power of two up to 32, or too small for a target, is the caller's mistake.
    """
    assert width in (1, 2, 4, 8, 16, 32) and counts.max(initial=0) <= width
    with_edge = LANES * float(counts.mean()) / width if counts.size else float("nan")
    steps = width.bit_length() - 1
    useful = np.maximum(counts - 1, 0).sum()  # sums that a row of d edges takes
    return with_edge, float(LANES * useful / (counts.size * width * steps)) if counts.size and steps else float("nan")


def resident(blocks: int, threads: int, gpu: Gpu = A100) -> float:
    """Mean warps an SM has of a launch of `blocks` of `threads` threads, its blocks dealt evenly: as many blocks as there are, at most as
    many as fit. Registers and shared memory are not looked at."""
    warps = -(-threads // LANES)
    return float(warps * min(blocks / gpu.sms, gpu.warps // warps, gpu.blocks))
