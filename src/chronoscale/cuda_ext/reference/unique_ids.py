"""Reference of unique ids and of the compaction of slots in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPARSE = 8  # ids below so many times their number are looked up in a table, others are sorted


def unique_ids(ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the unique ids, ascending, int32 [U], and the place of each of ids [n] among them, int64 [n]; the native kernel's reference.

    It takes time O(n) where ids are small, else one sort without indirection.
    """
    bound = int(ids.max(initial=-1)) + 1
    if bound <= SPARSE * ids.size:
        is_used = np.zeros(bound, np.bool_)
        is_used[ids] = True
        used = np.flatnonzero(is_used)
        rank = np.empty(bound, np.int64)
        rank[used] = np.arange(used.size)
        return used.astype(np.int32), rank[ids]
    packed = (ids.astype(np.int64) << 32) | np.arange(ids.size)  # the id, and where it stood
    packed.sort()
    ordered = packed >> 32
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    inverse = np.empty(ids.size, np.int64)
    inverse[packed & 0xFFFFFFFF] = np.cumsum(is_first) - 1
    return ordered[is_first].astype(np.int32), inverse


def filled_slots(ids: NDArray[np.int32], counts: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the first counts[i] ids of each row of ids [R, K], one row after another, int32 [n], for the native kernel's reference.

    And where each row's begin, int64 [R + 1].
    """
    return ids[np.arange(ids.shape[1]) < counts[:, None]], np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
