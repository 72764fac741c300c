"""Event streams of the samplers' subjects, and their batches of roots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chronoscale.datasets.catalogue import load
from chronoscale.datasets.streams.events import EventStream

BATCH = 2000
Roots = list[tuple[np.ndarray, np.ndarray]]  # nodes, and the event before which neighbours are sampled


def events_of(name: str) -> EventStream:
    """Return a stream of the catalogue, or the generated `hubs-EVENTS-NODES`."""
    if name.startswith("hubs-"):
        return hubs(*map(int, name.split("-")[1:]))
    stream = load(name, 0)
    assert isinstance(stream, EventStream), f"{name} has no events"
    return stream


def hubs(events: int, nodes: int) -> EventStream:
    """Return a stream with both ends from a power law."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(nodes).astype(np.int32)
    src, dst = (ids[(rng.pareto(0.8, events) * 20).astype(np.int64) % nodes] for _ in range(2))
    return EventStream(nodes, src, dst, np.arange(events))


def batches(stream: EventStream, start: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the ends of BATCH events each from event `start` on, and as many random nodes."""
    rng = np.random.default_rng(1)
    for first in range(start, len(stream), BATCH):
        src, dst = stream.src[first : first + BATCH], stream.dst[first : first + BATCH]
        node = np.concatenate([src, dst, rng.integers(0, stream.num_nodes, len(src)).astype(np.int32)])
        yield node, np.full(len(node), first, np.int32)
