"""Data of subjects by name: those of the catalogue, and generated ones whose name says how large they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from chronoscale.datasets import store
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import COLUMNS
from chronoscale.datasets.store import Dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.strategies.workload import ModelShape, Workload

BATCH = 2000  # events
SENSORS = 11_160  # PeMS's
Roots = list[tuple[np.ndarray, np.ndarray]]  # nodes, and the event before which neighbours are sampled


def load_data(name: str) -> Dataset:
    """Return a data set of the catalogue, or a generated one: `growth-NODES[-EDGES-SNAPSHOTS]`, `hubs-EVENTS-NODES`,
    `events-NODES-EVENTS[-FEATURES]`."""
    kind, *sizes = name.split("-")
    if kind in GENERATED and all(size.isdigit() for size in sizes):
        return GENERATED[kind](*map(int, sizes))
    return load(name)


def growth(nodes: int, edges: int = 0, snapshots: int = 14) -> SnapshotSequence:
    """Return snapshots of a growing graph, of which a tenth changes each time."""
    return GrowthGraph.rmat(nodes, edges or 4 * nodes, snapshots, 0.1, 1).sequence()


def hubs(events: int, nodes: int) -> EventStream:
    """Return a stream with both ends from a power law, without order between them."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(nodes).astype(np.int32)
    src, dst = (ids[(rng.pareto(0.8, events) * 20).astype(np.int64) % nodes] for _ in range(2))
    return EventStream(nodes, src, dst, np.arange(events))


def zipf_events(nodes: int, events: int, features: int = 0) -> EventStream:
    """Return a stream whose sources and partners follow Zipf's law; a pair comes three times on average."""
    return RandomStream(nodes, events, events // 3, source_skew=1.0, destination_skew=1.0, features=features).stream()


GENERATED: dict[str, Callable[..., Dataset]] = {"growth": growth, "hubs": hubs, "events": zipf_events}


def sequence_of(name: str) -> SnapshotSequence:
    """Return snapshots as experiments read them. Raises UserError for a data set of events."""
    sequence = load_data(name)
    if not isinstance(sequence, SnapshotSequence):
        raise UserError(f"'{name}' has no snapshots; expected a dataset like enron_monthly")
    return sequence.without_self_edges()


def events_of(name: str) -> EventStream:
    """Return a stream of events."""
    stream = load_data(name)
    assert isinstance(stream, EventStream), f"{name} has no events"
    return stream


def batches(stream: EventStream, start: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the ends of BATCH events each from event `start` on, and as many random nodes."""
    rng = np.random.default_rng(1)
    for first in range(start, len(stream), BATCH):
        src, dst = stream.src[first : first + BATCH], stream.dst[first : first + BATCH]
        node = np.concatenate([src, dst, rng.integers(0, stream.num_nodes, len(src)).astype(np.int32)])
        yield node, np.full(len(node), first, np.int32)


def stored(name: str, folder: Path) -> Path:
    """Return the folder of a data set, also of the generated `traffic-SENSORS-STEPS`; stored where it is not there yet."""
    path = folder / name
    if not path.exists():
        if name.startswith("traffic-"):
            traffic = TrafficSignal(*map(int, name.split("-")[1:]))
            store.save_signal(path, traffic, *traffic.graph(), path.name)
        else:
            store.save(path, load_data(name))
    return path


def steps_of(gigabytes: float, sensors: int = SENSORS) -> int:
    """Return steps of a float32 signal of that size."""
    return int(gigabytes * 1e9) // (4 * sensors)


def mapped(path: Path) -> Signal:
    """Return a stored signal, its arrays on disk."""
    signal = store.load(path)
    assert isinstance(signal, Signal)
    return signal


def evolving_workload(snapshots: int, times: int = 1) -> Workload:
    """Return the workload of REAL's section 7.5: a T-GCN of two layers on 2,000 nodes and 20,000 edges; snapshots come `times` over."""
    graph = EvolvingGraph(nodes=2000, edges=20_000, snapshots=snapshots)
    statistics = graph.statistics()
    if times > 1:
        statistics = replace(statistics, **{column: np.tile(getattr(statistics, column), times) for column in COLUMNS})
    return Workload(graph.name, statistics, ModelShape("tgcn", "gcn", "gru", 2, 32, 32, 1, snapshots))
