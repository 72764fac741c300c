"""Reference of the T-CSR and of the sampling of temporal neighbours in plain Python."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.reference.splitmix import STEP, WORD, mix
from chronoscale.errors import UserError


def count(src: NDArray[np.int32], dst: NDArray[np.int32], both: bool, degree: NDArray[np.int64]) -> None:
    """Add to degree [N] how many entries these events have in each row of a T-CSR, in Python, the reference of the native kernel.

    A T-CSR holds each node's events in order of time. src, dst int32 [M]: ends of the events. both: rows hold events that a node receives,
    too.
    """
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
    """Write the entries of these events into a T-CSR (each node's events in order of time), in Python, the reference of the native kernel.

    src, dst int32 [M]: ends of the events, of which `first` is the first one's number. both: rows hold events that a node receives, too.
    cursor int64 [N]: where each row's next entry goes, moved on. neighbor, event int32 [K]: get the other end and the event's number.
    Raises UserError where an entry has no room.
    """
    for v, other, e in _ends(src, dst, len(cursor), both):
        place = int(cursor[v])
        if not 0 <= place < len(neighbor):
            raise UserError("fill: an entry has no room")
        neighbor[place], event[place], cursor[v] = other, first + e, place + 1


def sample(
    arrays: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]],
    node: NDArray[np.int32],
    before: NDArray[np.int32],
    since: NDArray[np.int32] | None,
    uniform: bool,
    seed: int,
    out_neighbor: NDArray[np.int32],
    out_event: NDArray[np.int32],
    out_count: NDArray[np.int32],
) -> None:
    """Sample temporal neighbours in Python, the reference of the native kernel, by the same random numbers.

    arrays: indptr, neighbor and event of a T-CSR (each node's events in order of time). Root i is node[i] (-1: none); its neighbours are of
    events from since[i] (None: the first) up to before[i], not included: the latest ones or, if `uniform`, any, drawn from `seed`. Writes
    into out_neighbor and out_event [R, fan-out], -1 in empty slots, and out_count [R]. Raises UserError for ids and rows out of range.
    """
    indptr, neighbor, event = arrays
    if len(node) and not (node.min() >= -1 and node.max() < len(indptr) - 1):
        raise UserError(f"sample: node ids must lie in [-1, {len(indptr) - 1})")
    out_neighbor.fill(-1)
    out_event.fill(-1)
    least = [0] * len(node) if since is None else since.tolist()
    for i, (v, bound, first) in enumerate(zip(node.tolist(), before.tolist(), least, strict=True)):
        begin, end = (0, 0) if v < 0 else (int(indptr[v]), int(indptr[v + 1]))
        if not 0 <= begin <= end <= len(event):
            raise UserError("sample: a row does not lie within the entries")
        end = bisect_left(event, bound, begin, end)
        begin = bisect_left(event, first, begin, end)
        available = end - begin
        filled = min(available, out_neighbor.shape[1])
        picks = list(range(available - filled, available))
        if uniform and available > filled:
            picks = _chosen(mix(seed ^ mix((v & 0xFFFFFFFF) << 32 | (bound & 0xFFFFFFFF))), available, filled)
        places = [begin + pick for pick in picks]
        out_neighbor[i, :filled], out_event[i, :filled], out_count[i] = neighbor[places], event[places], filled


def _ends(src: NDArray[np.int32], dst: NDArray[np.int32], nodes: int, both: bool) -> list[tuple[int, int, int]]:
    """List (row, other end, event) for each entry that events have in a T-CSR, in order. Raises UserError for ids out of range."""
    for ids in (src, dst):
        if len(ids) and not (ids.min() >= 0 and ids.max() < nodes):
            raise UserError(f"node ids must lie in [0, {nodes})")
    pairs = enumerate(zip(src.tolist(), dst.tolist(), strict=True))
    return [entry for e, (u, v) in pairs for entry in ([(u, v, e), (v, u, e)] if both and u != v else [(u, v, e)])]


def _chosen(root: int, length: int, fanout: int) -> list[int]:
    """Draw `fanout` different numbers below `length`, ascending (Floyd's method: Bentley and Floyd, CACM 1987)."""
    chosen: set[int] = set()
    for k in range(fanout):
        last = length - fanout + k
        pick = mix((root + (k + 1) * STEP) & WORD) * (last + 1) >> 64
        chosen.add(last if pick in chosen else pick)
    return sorted(chosen)
