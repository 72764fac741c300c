"""Conversion of event streams to snapshots, by equal time or by equal number of events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

_MAX_SNAPSHOTS = 10_000_000  # a width this far below the span is a mistaken unit


def snapshots_by_width(events: EventStream, width: float, *, cumulative: bool = False, sliding: int | None = None) -> SnapshotSequence:
    """Convert an event stream to snapshots of equal time: snapshot i holds the events with t in [t0 + i * width, t0 + (i + 1) * width), t0
    the time of the first event; some may be empty.

    width: in the stream's unit of time. Events of one pair within a snapshot become one edge, whose weight is their number. `cumulative`: a
    snapshot holds all events up to its end; `sliding=k`: those of its own and the k - 1 periods before. The sequence's labels are the
    starts of the periods, rounded down to integers. Raises UserError for a width that is not positive or makes more than ten million
    snapshots, for a stream without events, and where both `cumulative` and `sliding` are given.
    """
    _require_events(events)
    if not (np.isfinite(width) and width > 0):
        raise UserError(f"width: expected a positive time, got {width}")
    count = float(events.t[-1] - events.t[0]) / width + 1
    if count > _MAX_SNAPSHOTS:
        raise UserError(f"width: {width} would make {count:.0f} snapshots; the stream spans {events.t[-1] - events.t[0]}")
    starts = _period_starts(events.t, width, int(count))
    ptr = np.append(np.searchsorted(events.t, starts), len(events)).astype(np.int64)
    return _snapshots(events, ptr, np.floor(starts).astype(np.int64), cumulative, sliding)


def snapshots_by_count(events: EventStream, count: int, *, cumulative: bool = False, sliding: int | None = None) -> SnapshotSequence:
    """Convert an event stream to snapshots of `count` events each: snapshot i holds the events i * count .. (i + 1) * count - 1; the last
    may hold fewer. Weights, labels, `cumulative` and `sliding` are as in `snapshots_by_width`; so are errors, and UserError for a count
    below 1."""
    _require_events(events)
    if count < 1:
        raise UserError(f"count: expected at least 1 event, got {count}")
    starts = np.arange(0, len(events), count, dtype=np.int64)
    return _snapshots(events, np.append(starts, len(events)), np.floor(events.t[starts]).astype(np.int64), cumulative, sliding)


def _require_events(events: EventStream) -> None:
    if len(events) == 0:
        raise UserError(f"event stream '{events.name}' has no events")


def _period_starts(t: Int64 | Float64, width: float, count: int) -> Int64 | Float64:
    periods = np.arange(count, dtype=np.int64)
    if t.dtype == np.int64 and float(width).is_integer():  # exact, also beyond 2**53
        return np.asarray(t[0] + periods * min(int(width), np.iinfo(np.int64).max), dtype=np.int64)
    return np.asarray(float(t[0]) + periods * float(width), dtype=np.float64)


def _snapshots(events: EventStream, ptr: Int64, labels: Int64, cumulative: bool, sliding: int | None) -> SnapshotSequence:
    if cumulative and sliding is not None:
        raise UserError("cumulative and sliding exclude each other")
    ones = np.ones(len(events), dtype=np.float32)
    base = SnapshotSequence.from_edges(events.num_nodes, ptr, events.src, events.dst, ones, events.name, labels, events.node_ids)
    base = replace(base, node_names=events.node_names)
    if cumulative:
        return base.window(len(base))
    return base if sliding is None else base.window(sliding)
