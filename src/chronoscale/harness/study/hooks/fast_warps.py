"""Warps: how many of a warp's threads have work in reductions over a subgraph, and how many warps an SM has; exact counts, on no GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Int64

LANES = 32


@dataclass(frozen=True, slots=True)
class Gpu:
    """Limits of a GPU, an A100's by default, for modelled kernels of FAST's Tables 2 and 5.

    sms: streaming multiprocessors; warps, blocks: that one of them holds at most; l1, l2: bytes of an SM's L1 and of the L2.
    """

    sms: int = 108
    warps: int = 64
    blocks: int = 32
    l1: int = 192 << 10
    l2: int = 40 << 20


A100 = Gpu()


def looping(counts: Int64, threads: int = 1) -> float:
    """Return the mean active threads of a GPU's warp in a node-parallel operator, for FAST's Tables 2 and 5.

    Each of `threads` a target loops over its edges (FAST's edge softmax: a thread a head); a warp loops as long as its longest row. counts:
    edges of each target, int64 [T]. NaN without an edge.
    """
    of = np.repeat(counts, threads)
    rows = np.concatenate([of, np.zeros(-of.size % LANES, np.int64)]).reshape(-1, LANES)
    loops = int(rows.max(1).sum()) if rows.size else 0
    return float(of.sum() / loops) if loops else float("nan")


def apiece(edges: int) -> float:
    """Return the mean active threads of a GPU's warp in an edge-parallel operator, a thread an edge, for FAST's Tables 2 and 5.

    edges: how many. NaN without an edge.
    """
    return edges / -(-edges // LANES) if edges else float("nan")


def shuffling(counts: Int64, width: int) -> tuple[float, float]:
    """Return how many lanes of a GPU's warp have work where `width` lanes reduce a target by shuffles (dGNN), for FAST's Tables 2 and 5.

    Returns the mean of lanes that have an edge, and of lanes that add up something, over the steps of the reduction's tree; all are active
    in any case. counts: edges of each target, at most `width`, int64 [T]. width: a power of two up to 32; anything else is the caller's
    mistake (AssertionError).
    """
    assert width in (1, 2, 4, 8, 16, 32) and counts.max(initial=0) <= width
    with_edge = LANES * float(counts.mean()) / width if counts.size else float("nan")
    steps = width.bit_length() - 1
    useful = np.maximum(counts - 1, 0).sum()  # sums that a row of d edges takes
    return with_edge, float(LANES * useful / (counts.size * width * steps)) if counts.size and steps else float("nan")


def resident(blocks: int, threads: int, gpu: Gpu = A100) -> float:
    """Return the mean warps that an SM holds while a kernel runs, for FAST's Tables 2 and 5.

    blocks: of the launch, each of `threads` threads; they are dealt evenly, at most as many as fit; registers and shared memory are not
    looked at.
    """
    warps = -(-threads // LANES)
    return float(warps * min(blocks / gpu.sms, gpu.warps // warps, gpu.blocks))
