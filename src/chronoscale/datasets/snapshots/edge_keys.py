"""Edges as sorted int64 keys, dst in the high half and src in the low: set algebra on graphs becomes merging.

A snapshot's edges are sorted by (dst, src), so their keys ascend. Two ascending runs merge in linear time
(NumPy's stable sort of int64 finds the runs), three to four times faster than a binary search per edge.
"""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.arrays import Bool, Float32, Int32, Int64, Numbers


def pack(src: Numbers, dst: Numbers) -> Int64:
    """Pack edges src -> dst of a snapshot (or pairs of nodes) into keys, one int64 each, dst in the high half: int64 [E]. Keys sort by
    (dst, src)."""
    return (dst.astype(np.int64) << 32) | src.astype(np.int64)


def unpack(keys: Int64) -> tuple[Int32, Int32]:
    """Unpack keys of edges, int64 [E], into (src, dst), int32 [E] each."""
    return (keys & 0xFFFFFFFF).astype(np.int32), (keys >> 32).astype(np.int32)


def ascend(keys: Int64) -> bool:
    """Return whether keys of edges, int64 [E], are sorted and without duplicates."""
    return bool((keys[1:] > keys[:-1]).all())


def contains(keys: Int64, queries: Int64) -> Bool:
    """Return which of the edges `queries` are among `keys`: a mask, bool [queries]. Both are keys of edges, `keys` ascending. By a binary
    search an edge: for few queries."""
    if keys.size == 0:
        return np.zeros(queries.size, dtype=np.bool_)
    places = np.searchsorted(keys, queries)
    places[places == keys.size] = keys.size - 1
    present: Bool = keys[places] == queries
    return present


def difference(before: Int64, after: Int64) -> tuple[Int64, Int64]:
    """Compare the edges of two snapshots: return (added, removed), those only in `after` and those only in `before`. All are keys of edges,
    int64, ascending; linear time."""
    merged = np.concatenate([before, after])
    merged.sort(kind="stable")
    edge_of_run = np.ones(merged.size + 1, dtype=np.bool_)
    np.not_equal(merged[1:], merged[:-1], out=edge_of_run[1:-1])
    single = merged[edge_of_run[1:] & edge_of_run[:-1]]
    was_there = contains(before, single)
    return single[~was_there], single[was_there]


def merge(first: Int64, second: Int64) -> Int64:
    """Merge two ascending arrays of keys of edges that have none in common, in linear time: int64, ascending."""
    merged = np.concatenate([first, second])
    merged.sort(kind="stable")
    return merged


def unique(keys: Int64, weight: Float32 | None) -> tuple[Int64, Float32 | None]:
    """Sort keys of edges, int64 [E], and merge duplicates, whose weights, float32 [E] or None, are added: (keys, weights)."""
    if ascend(keys):
        return keys, weight
    if weight is None:
        keys = np.sort(keys, kind="stable")
        return keys[first_of_run(keys)], None
    order = np.argsort(keys, kind="stable")
    keys, weight = keys[order], weight[order]
    first = np.flatnonzero(first_of_run(keys))
    return keys[first], np.add.reduceat(weight, first, dtype=np.float64).astype(np.float32)


def first_of_run(sorted_keys: Int32 | Int64) -> Bool:
    """Mark the first of each run of equal values in a sorted array (keys or ids): bool [E]."""
    first = np.ones(sorted_keys.size, dtype=np.bool_)
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=first[1:])
    return first
