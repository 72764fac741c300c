"""Gaps between two events of a node, whose mean and deviation normalise what a model reads of time."""

from __future__ import annotations

import numpy as np

from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream

BLOCK = 1 << 20  # entries of the T-CSR read at once


def measure_event_gaps(source: IndexedStream, events: int) -> tuple[float, float]:
    """Measure the mean and standard deviation of the time from one event of a node to its next, over all nodes and the first `events`
    events of the stream: models normalise elapsed times by them. 0 and 0 without any."""
    rows, t = source.tcsr, source.stream.t
    first = np.zeros(rows.neighbor.size + 1, np.bool_)  # entries that begin a node's row
    first[rows.indptr] = True
    count = 0
    total = 0.0
    squares = 0.0
    for begin in range(0, max(rows.neighbor.size - 1, 0), BLOCK):
        event = rows.event[begin : begin + BLOCK + 1]
        follows = ~first[begin + 1 : begin + event.size] & (event[1:] < events)
        gaps = (t[event[1:]] - t[event[:-1]])[follows].astype(np.float64)
        count = count + gaps.size
        total = total + float(gaps.sum())
        squares = squares + float(np.square(gaps).sum())
    if not count:
        return 0.0, 0.0
    mean = total / count
    return mean, max(squares / count - mean * mean, 0.0) ** 0.5
