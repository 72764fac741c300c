"""Distinct: the different ones of a batch's ids."""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.arrays import Int32, Int64
from chronoscale.datasets.snapshots import edge_keys

SPARSE = 8  # ids below so many times their number are looked up in a table, others are sorted


def distinct(ids: Int32) -> tuple[Int32, Int64]:
    """The different ones of ids [n], none negative, ascending, int32 [U], and the place of each among them, int64 [n].

    As `np.unique` with its inverse, in time O(n) where ids are small, else by one sort without indirection.
    """
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
    first = edge_keys.first_of_run(ordered)
    index = np.empty(ids.size, np.int64)
    index[keys & 0xFFFFFFFF] = np.cumsum(first) - 1
    return ordered[first].astype(np.int32), index
