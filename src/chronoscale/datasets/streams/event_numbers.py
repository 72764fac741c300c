"""Numbers of events in a stream, as a range or one by one, and the indices of their rows."""

from __future__ import annotations

from chronoscale.datasets.arrays import Int64

EventNumbers = range | Int64  # ascending


def row_index(events: EventNumbers) -> slice | Int64:
    """Return the index of these events' rows in a column [M]."""
    return slice(events.start, events.stop) if isinstance(events, range) else events


def relative_to(events: EventNumbers, first: int) -> EventNumbers:
    """Return the events' numbers counted from event `first`."""
    return range(events.start - first, events.stop - first) if isinstance(events, range) else events - first
