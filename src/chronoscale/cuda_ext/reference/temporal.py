"""T-CSR and sampling in plain Python: what the native kernels are compared with, and what runs where there is none."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.reference.splitmix import STEP, WORD, mix
from chronoscale.errors import UserError


def count(src: NDArray[np.int32], dst: NDArray[np.int32], both: bool, degree: NDArray[np.int64]) -> None:
    """As temporal.count."""
    for v in _ends(src, dst, len(degree), both):
        degree[v[0]] += 1


def fill(
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    first: int,
    both: bool,
    cursor: NDArray[np.int64],
    neighbor: NDArray[np.int32],
    event: NDArray[np.int32],
) -> None:
    """As temporal.fill."""
    for v, other, e in _ends(src, dst, len(cursor), both):
        at = int(cursor[v])
        if not 0 <= at < len(neighbor):
            raise UserError("fill: an entry has no room")
        neighbor[at], event[at], cursor[v] = other, first + e, at + 1


def sample(
    rows: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]],
    node: NDArray[np.int32],
    before: NDArray[np.int32],
    since: NDArray[np.int32] | None,
    uniform: bool,
    seed: int,
    out_neighbor: NDArray[np.int32],
    out_event: NDArray[np.int32],
    out_count: NDArray[np.int32],
) -> None:
    """As temporal.sample, into the arrays of a Sampled."""
    indptr, neighbor, event = rows
    if len(node) and not (node.min() >= -1 and node.max() < len(indptr) - 1):
        raise UserError(f"sample: node ids must lie in [-1, {len(indptr) - 1})")
    out_neighbor.fill(-1)
    out_event.fill(-1)
    least = [0] * len(node) if since is None else since.tolist()
    for i, (v, bound, low) in enumerate(zip(node.tolist(), before.tolist(), least, strict=True)):
        begin, end = (0, 0) if v < 0 else (int(indptr[v]), int(indptr[v + 1]))
        if not 0 <= begin <= end <= len(event):
            raise UserError("sample: a row does not lie within the entries")
        end = bisect_left(event, bound, begin, end)
        begin = bisect_left(event, low, begin, end)
        there = end - begin
        taken = min(there, out_neighbor.shape[1])
        chosen = list(range(there - taken, there))
        if uniform and there > taken:
            chosen = _chosen(mix(seed ^ mix((v & 0xFFFFFFFF) << 32 | (bound & 0xFFFFFFFF))), there, taken)
        at = [begin + pick for pick in chosen]
        out_neighbor[i, :taken], out_event[i, :taken], out_count[i] = neighbor[at], event[at], taken


def _ends(src: NDArray[np.int32], dst: NDArray[np.int32], nodes: int, both: bool) -> list[tuple[int, int, int]]:
    """(row, other end, event) of each entry, in order."""
    for ids in (src, dst):
        if len(ids) and not (ids.min() >= 0 and ids.max() < nodes):
            raise UserError(f"node ids must lie in [0, {nodes})")
    pairs = enumerate(zip(src.tolist(), dst.tolist(), strict=True))
    return [entry for e, (u, v) in pairs for entry in ([(u, v, e), (v, u, e)] if both and u != v else [(u, v, e)])]


def _chosen(root: int, length: int, fanout: int) -> list[int]:
    """Different numbers below `length`, ascending (Floyd: Bentley and Floyd, CACM 1987)."""
    chosen: set[int] = set()
    for k in range(fanout):
        last = length - fanout + k
        pick = mix((root + (k + 1) * STEP) & WORD) * (last + 1) >> 64
        chosen.add(last if pick in chosen else pick)
    return sorted(chosen)
