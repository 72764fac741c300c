"""Counts of what a dataset holds, for each kind of dynamic graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.entries import Published
from chronoscale.datasets.formats.epoch import find_epoch_unit, show_date
from chronoscale.datasets.node_names import name_nodes
from chronoscale.datasets.signals.graphs.graph_counts import GraphCounts
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.statistics import count_stream, distinct_labels, stream_shape
from chronoscale.errors import UserError
from chronoscale.harness.display.fact import Fact, Facts, spread

NAMED_NODES = 5  # that are named at most
DEAD_SENSORS = 5  # that are named at most


def count_snapshots(sequence: SnapshotSequence, horizon: int) -> Facts:
    """Count what a dataset of snapshots holds, for `chronoscale data info`: nodes, snapshots, edges, classes, and changes between
    neighbours.

    horizon: not used; only windows of signals need it.
    """
    stats = statistics_of(sequence)
    spans = {"edges a snapshot": stats.edges, "active nodes": stats.nodes}
    compared = {"changed edges": stats.changed_edges, "effective edges": stats.effective_edges, "touched rows": stats.touched_rows}
    spans |= {key: column[1:] for key, column in compared.items()}
    loops = int(np.count_nonzero(sequence.src == sequence.dst))
    totals = [("nodes", sequence.num_nodes), ("snapshots", len(sequence)), ("edges", int(stats.edges.sum())), ("self-loops", loops)]
    if sequence.classes is not None:
        totals += [("classes", sequence.num_classes), ("labelled nodes", int(np.count_nonzero(sequence.classes >= 0)))]
    return (
        [Fact(*total) for total in totals]
        + _names(sequence, "nodes")
        + [spread(key, column) for key, column in spans.items() if len(column)]
    )


def count_signal(signal: Signal, horizon: int) -> Facts:
    """Count what a signal holds, for `chronoscale data info`: sensors, steps, channels, edges, missing readings, and the bytes of all
    windows.

    horizon: steps that a window reads, and as many that it predicts.
    """
    steps, sensors, channels = signal.values.shape
    missing, dead = signal.missing_count, len(signal.dead_sensors)
    calendar = f", the last {signal.calendar} of the calendar" if signal.calendar else ""
    return [
        Fact("sensors", sensors),
        *_names(signal, "sensors"),
        Fact("steps", steps),
        Fact("channels", channels, f"{channels:,}{calendar}"),
        Fact("edges", signal.edge_index.shape[1]),
        Fact("self-loops", int(np.count_nonzero(signal.edge_index[0] == signal.edge_index[1]))),
        *_graph_counts(signal),
        Fact("missing readings", missing, f"{missing:,} ({missing / max(signal.readings, 1):.2%})"),
        Fact("sensors without a reading", dead, f"{dead:,}" + (f": {dead_sensors(signal)}" if dead else "")),
        *_window_bytes((steps, sensors, channels), horizon, signal.values.dtype),
    ]


def _graph_counts(signal: Signal) -> Facts:
    counts = GraphCounts.of(signal)
    alone, most = len(counts.isolated), int(counts.neighbours.max(initial=0))
    return [
        Fact("neighbours a sensor", counts.mean_degree, f"{counts.mean_degree:.1f} in the mean, {most:,} at most"),
        Fact("isolated sensors", alone, f"{alone:,}" + (f": {_first_names(signal, counts.isolated)}" if alone else "")),
        Fact("components", counts.components),
    ]


def dead_sensors(signal: Signal) -> str:
    """Name the first sensors without a single reading, for `chronoscale data info` and warnings, by the source's names or ids if any.

    Returns '' where every sensor has one.
    """
    return _first_names(signal, signal.dead_sensors)


def _first_names(signal: Signal, sensors: Int64) -> str:
    return ", ".join(name_nodes(signal, sensors[:DEAD_SENSORS])) + (", …" if len(sensors) > DEAD_SENSORS else "")


def printed_sizes(counts: Published, horizon: int) -> Facts:
    """Compute the bytes of a signal and its windows from the counts that a paper prints, for `chronoscale data info`; [] where it prints
    none.

    horizon: steps that a window reads, and as many that it predicts.
    """
    if not counts.steps or not counts.node_features:
        return []
    return _window_bytes((counts.steps, counts.nodes, counts.node_features), horizon, np.dtype(np.float64), "published counts, ")


def _window_bytes(shape: tuple[int, int, int], horizon: int, dtype: np.dtype[Any], source: str = "") -> Facts:
    """Bytes of [steps, sensors, channels]: one array, all windows copied out (PGT-I eq. 1), one array and an index (eq. 2)."""
    steps, sensors, channels = shape
    rows = [Fact(f"bytes, one array ({source}{dtype})", steps * sensors * channels * dtype.itemsize)]
    labels = [f"bytes, {form} ({source}{dtype}, horizon {horizon})" for form in ("windows copied, eq. 1", "index-batching, eq. 2")]
    try:
        windows = Windows(steps, horizon, horizon)
    except UserError as error:
        return rows + [Fact(label, None, str(error)) for label in labels]
    sizes = (size(sensors, channels, dtype.itemsize) for size in (windows.materialised_bytes, windows.index_bytes))
    return rows + [Fact(label, int(size)) for label, size in zip(labels, sizes, strict=True)]


def count_events(stream: EventStream, horizon: int) -> Facts:
    """Count what an event stream holds, for `chronoscale data info`: nodes, events, repeated pairs, features, and how skewed and bursty it
    is.

    horizon: not used; only windows of signals need it.
    """
    counted = count_stream(stream)
    facts = [Fact("nodes", stream.num_nodes), *_names(stream, "nodes"), Fact("events", len(stream)), *_times(stream)]
    facts += [
        Fact("self-loops", counted.self_loops),
        Fact("repeated events", counted.duplicates, f"{counted.duplicates:,} (same src, dst and time)"),
    ]
    facts += [Fact("distinct pairs", counted.pairs), *_shape(stream, counted.repetition)]
    facts += [Fact("features", 0 if stream.features is None else stream.features.shape[1])]
    if stream.node_features is not None:
        facts.append(Fact("node features", stream.node_features.shape[1]))
    return facts if stream.labels is None else [*facts, Fact("distinct labels", distinct_labels(stream))]


def _shape(stream: EventStream, repetition: float) -> Facts:
    measured = stream_shape(stream)
    facts = [Fact("nodes with an event", measured.active_nodes), Fact("repetition", repetition, f"{repetition:.2%} of the events")]
    skews = {"source skew": measured.source_skew, "destination skew": measured.destination_skew}
    facts += [Fact(name, value, f"{value:.2f} (Zipf exponent)") for name, value in skews.items() if not math.isnan(value)]
    if math.isnan(measured.burstiness):
        return facts
    return [*facts, Fact("burstiness", measured.burstiness, f"{measured.burstiness:.2f} (-1 even, 0 Poisson, 1 bursts)")]


def _times(stream: EventStream) -> Facts:
    if not len(stream):
        return []
    ends = {"first time": stream.t[0].item(), "last time": stream.t[-1].item()}
    seconds = find_epoch_unit(min(ends.values()), max(ends.values())) == "s"
    dates = {name: f" ({show_date(int(time), 1)} UTC, as seconds)" if seconds else "" for name, time in ends.items()}
    return [Fact(name, time, f"{time:,}{dates[name]}") for name, time in ends.items()]


def _names(dataset: EventStream | Signal | SnapshotSequence, what: str) -> Facts:
    """Return a line with the first names of a dataset's nodes; none where they have no names."""
    if dataset.node_names is None:
        return []
    names = name_nodes(dataset, range(min(dataset.num_nodes, NAMED_NODES)))
    return [Fact(f"names of {what}", names, ", ".join(names) + (", …" if dataset.num_nodes > NAMED_NODES else ""))]


COUNTERS: Mapping[str, Callable[[Any, int], Facts]] = {"snapshots": count_snapshots, "signals": count_signal, "streams": count_events}
