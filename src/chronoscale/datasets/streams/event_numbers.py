"""Numbers of events in a stream, as a range or one by one, and the indices of their rows."""

from __future__ import annotations

from chronoscale.datasets.arrays import Int64

EventNumbers = range | Int64  # ascending


def row_index(events: EventNumbers) -> slice | Int64:
    """Return what to index a stream's column [M] with, for the rows of these events: a slice for a range, else the numbers themselves."""
    return slice(events.start, events.stop) if isinstance(events, range) else events


def relative_to(events: EventNumbers, first: int) -> EventNumbers:
    """Renumber events of a stream so that event `first` is 0: a range for a range, else int64 [B]."""
    return range(events.start - first, events.stop - first) if isinstance(events, range) else events - first
