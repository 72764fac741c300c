"""Small streams with ties, self-loops and repeated edges, and a search through the list of all their events."""

import numpy as np
from hypothesis import strategies as st

from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR

NODES = 7  # the last is isolated
ends = st.integers(0, NODES - 2)


def source_of(events, whole=True):
    """Ties, self-loops, repeated edges; times int64 or float64."""
    ordered = sorted(events, key=lambda event: event[2])
    src, dst, t = (np.array([event[k] for event in ordered], dtype) for k, dtype in enumerate("iiq"))
    stream = EventStream(NODES, src, dst, t if whole else t / 4)
    return IndexedStream(stream, TCSR.of(stream))


sources = st.builds(source_of, st.lists(st.tuples(ends, ends, st.integers(0, 9)), min_size=3, max_size=40), st.booleans())


def earlier(stream, node, since, before):
    """(other end, event), in the order of events."""
    pairs = list(zip(stream.src.tolist(), stream.dst.tolist(), strict=True))
    return [(b if node == a else a, e) for e, (a, b) in enumerate(pairs) if since <= e < before and node in (a, b)]
