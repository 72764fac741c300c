"""What the text formats of event streams share: columns of ids and times, checked and compacted into an EventStream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.datasets.arrays import MAX_NODES, Int32, Int64
from chronoscale.datasets.formats.columns import Columns
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError


class Places(NamedTuple):
    """Which column is what; features are all from `features_from` on."""

    src: int
    dst: int
    t: int
    label: int | None = None
    features_from: int | None = None


def events_of(columns: Columns, places: Places, *, bipartite: bool = False, sort: bool = False, smallest_id: int = 0) -> EventStream:
    """Events from the columns that `places` names.

    Ids become 0..N-1 in the order of the source's ids, which are kept as `node_ids`; `bipartite`: sources and destinations
    are two id spaces, destinations come after the sources. `sort`: bring events into time order (stable).
    Raises UserError, `file:line: what`, for ids or labels that are no integers, ids below `smallest_id`, and, unless `sort`,
    for time that falls.
    """
    src, dst, t, label, features_from = places
    sources, targets = _ids(columns, src, smallest_id), _ids(columns, dst, smallest_id)
    if bipartite:
        (u, user_ids), (v, item_ids) = compact(sources), compact(targets)
        v, node_ids = v + np.int32(user_ids.size), np.concatenate([user_ids, item_ids])
    else:
        both, node_ids = compact(np.concatenate([sources, targets]))
        u, v = both[: sources.size], both[sources.size :]
    time = columns.column(t)
    labels = None if label is None else _integers(columns, label, "label")
    features = None if features_from is None or features_from >= columns.fields else columns.matrix(features_from)
    if (falls := time[1:] < time[:-1]).any():
        if not sort:
            row = int(np.argmax(falls)) + 1
            raise columns.error(row, f"time {time[row]} is before the {time[row - 1]} that precedes it; sort=True sorts the events")
        order = np.argsort(time, kind="stable")
        u, v, time = u[order], v[order], time[order]
        labels = None if labels is None else labels[order]
        features = None if features is None else features[order]
    return EventStream(node_ids.size, u, v, time, features, labels, node_ids, columns.path.stem)


def compact(ids: Int64) -> tuple[Int32, Int64]:
    """(positions int32, distinct ids int64 ascending): ids = distinct[positions]. A table where ids are dense, else a sort."""
    top = int(ids.max(initial=0))
    if top < 4 * ids.size + 1024:
        seen = np.zeros(top + 1, dtype=np.bool_)
        seen[ids] = True
        rank = np.cumsum(seen, dtype=np.int64) - 1
        return rank[ids].astype(np.int32), np.flatnonzero(seen).astype(np.int64)
    distinct, positions = np.unique(ids, return_inverse=True)
    if distinct.size > MAX_NODES:
        raise UserError(f"{distinct.size} distinct nodes are more than int32 ids can name")
    return positions.astype(np.int32), distinct


def _ids(columns: Columns, i: int, smallest: int) -> Int64:
    ids = _integers(columns, i, "node id")
    if ids.size and ids.min() < smallest:
        row = int(np.argmax(ids < smallest))
        raise columns.error(row, f"node id {ids[row]} is below {smallest}")
    return ids


def _integers(columns: Columns, i: int, what: str) -> Int64:
    numbers = columns.column(i)
    if numbers.dtype == np.int64:
        return numbers
    if (wrong := (numbers != np.floor(numbers)) | (np.abs(numbers) >= 2.0**53)).any():
        row = int(np.argmax(wrong))
        raise columns.error(row, f"expected an integer {what}, found {numbers[row]}")
    return numbers.astype(np.int64)
