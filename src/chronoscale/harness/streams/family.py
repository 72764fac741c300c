"""Streams: events (CTDG). They are read, described, converted and cut into snapshots; nothing trains on them yet."""

from __future__ import annotations

from chronoscale.datasets.streams.events import EventStream
from chronoscale.harness.family import Family, Rows


class Streams(Family):
    """As `Family` says."""

    name = "streams"
    container = EventStream

    def describe(self, found: EventStream, horizon: int) -> Rows:
        return [("nodes", f"{found.num_nodes:,}"), ("events", f"{len(found.src):,}"), ("time", f"{found.t[0]:,} .. {found.t[-1]:,}")]
