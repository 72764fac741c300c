"""Streams: events (CTDG). They are read, described, converted and cut into snapshots; nothing trains on them yet."""

from __future__ import annotations

from chronoscale.datasets.streams.events import EventStream
from chronoscale.harness.family import Family, Rows


def today(label: str) -> str:
    """What can be done with a dataset of events, in one line."""
    return (
        f"dataset '{label}' is a stream of events: it can be described (`chronoscale data info`), converted, and cut into snapshots, which "
        "models on snapshots train on, as in `cut: {width: 604800}` or `cut: {count: 1000}`; training on events is not there yet"
    )


class Streams(Family):
    """As `Family` says."""

    name = "streams"
    container = EventStream

    def describe(self, found: EventStream, horizon: int) -> Rows:
        return [("nodes", f"{found.num_nodes:,}"), ("events", f"{len(found.src):,}"), ("time", f"{found.t[0]:,} .. {found.t[-1]:,}")]
