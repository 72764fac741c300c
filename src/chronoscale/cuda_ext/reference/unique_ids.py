"""The different ones of many ids in NumPy: what the native kernel is compared with, and what runs where there is none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPARSE = 8  # ids below so many times their number are looked up in a table, others are sorted


def unique_ids(ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """As distinct.distinct. In time O(n) where ids are small, else by one sort without indirection."""
    bound = int(ids.max(initial=-1)) + 1
    if bound <= SPARSE * ids.size:
        there = np.zeros(bound, np.bool_)
        there[ids] = True
        rows = np.flatnonzero(there)
        place = np.empty(bound, np.int64)
        place[rows] = np.arange(rows.size)
        return rows.astype(np.int32), place[ids]
    keys = (ids.astype(np.int64) << 32) | np.arange(ids.size)  # the id, and where it stood
    keys.sort()
    ordered = keys >> 32
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    index = np.empty(ids.size, np.int64)
    index[keys & 0xFFFFFFFF] = np.cumsum(first) - 1
    return ordered[first].astype(np.int32), index


def filled_slots(ids: NDArray[np.int32], counts: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Of ids [R, K] the first counts[i] of each row, one row after another, int32 [n], and where each row's begin, int64 [R + 1]."""
    return ids[np.arange(ids.shape[1]) < counts[:, None]], np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
