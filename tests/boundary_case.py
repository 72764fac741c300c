"""Streams in parts across whose boundary neighbours are sampled, and what the sampler gives of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from stream_search import NODES, source_of

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.sampling import boundary
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.cuda_ext.native.arguments import WeightedNeighbors
from chronoscale.cuda_ext.sampling import boundary_decay as kernel
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR


@st.composite
def cut(draw: Any) -> tuple[IndexedStream, LocalPart]:
    """A stream and its parts, of which some events and nodes are wherever they like."""
    ends = st.integers(0, NODES - 2)
    source = source_of(draw(st.lists(st.tuples(ends, ends, st.integers(0, 9)), min_size=1, max_size=60)), draw(st.booleans()))
    count = draw(st.integers(1, 3))
    node = draw(st.lists(st.integers(SHARED, count - 1), min_size=NODES, max_size=NODES))
    event = draw(st.lists(st.integers(0, count - 1), min_size=len(source.stream), max_size=len(source.stream)))
    return source, LocalPart(EventPartition(np.array(node, np.int32), np.array(event, np.int32), count), draw(st.integers(0, count - 1)))


thetas, decays = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0, 3.0]), st.sampled_from([0.0, 0.3, 5.0, 1e6])


def all_roots(source: IndexedStream) -> tuple[np.ndarray, np.ndarray]:
    """Every node, and none, before several events."""
    bounds = [0, len(source.stream) // 2, len(source.stream)]
    return np.repeat(np.arange(-1, NODES), 3).astype(np.int32), np.tile(bounds, NODES + 1).astype(np.int32)


def found_by(
    case: tuple[IndexedStream, LocalPart], of: Boundary, fanout: int, seed: int = 0, place: str = "cpu", **more: Any
) -> WeightedNeighbors:
    source, seat = case
    with pytest.MonkeyPatch.context() as patch:
        if place == "reference":
            patch.setattr(kernel, "cpu_library_or_warn", lambda what: None)
        return boundary.sample(source.tcsr, source.stream.t, seat, *all_roots(source), fanout, of, seed, **more)


def local(seat: LocalPart, neighbor: int, event: int) -> bool:
    return bool(seat.parts.event[event] == seat.rank and seat.parts.here(seat.rank)[neighbor])


def one_root(remote_share: float = 0.6, fanout: int = 12, seed: int = 0) -> tuple[IndexedStream, LocalPart, np.ndarray]:
    """A node with 40 events, its seat, and which of the last `fanout` are remote."""
    rng = np.random.default_rng(seed)
    stream = EventStream(41, np.zeros(40, np.int32), np.arange(1, 41, dtype=np.int32), np.sort(rng.exponential(40, 40)))
    event = (rng.random(40) < remote_share).astype(np.int32)
    node = np.append(SHARED, event).astype(np.int32)
    return IndexedStream(stream, TCSR.of(stream, both=False)), LocalPart(EventPartition(node, event, 2), 0), event[-fanout:].astype(bool)
