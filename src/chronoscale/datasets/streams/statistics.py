"""Statistics that describe a stream of events: counts, repetition, skew and burstiness."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Float64, Int32, Int64, release
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.streams.events import EventStream

_BLOCK = 1 << 16  # events read at a time


class StreamCounts(NamedTuple):
    """Counts that describe an event stream. self_loops: events from a node to itself. pairs: distinct (src, dst). duplicates: events that
    repeat the src, dst and time of another. repetition: share of the events that repeat a pair; 0 without events."""

    self_loops: int
    pairs: int
    duplicates: int
    repetition: float


def count_stream(events: EventStream) -> StreamCounts:
    """Count an event stream's self-loops, pairs and duplicates exactly, for a dataset's description. Reads blocks of events: beside what is
    mapped, memory is some two bytes an event (`distinct_pairs`)."""
    loops = sum(int(np.count_nonzero(events.src[block] == events.dst[block])) for block in _blocks(len(events)))
    pairs = distinct_pairs(events.src, events.dst)
    for column in (events.src, events.dst, events.t):
        release(column)
    return StreamCounts(loops, pairs, _count_duplicates(events), 1 - pairs / max(len(events), 1))


def distinct_pairs(src: Int32, dst: Int32) -> int:
    """Count the distinct pairs (src, dst) of an event stream, src and dst int32 [M].

    Pairs are dealt out by a hash to up to 16 parts, and a pass over all of them counts those of one part: a pass keeps each pair of the
    part once a block, some M / 16 of 8 bytes, and sorts them.
    """
    bits = min(max(src.size // _BLOCK, 1).bit_length() - 1, 4)
    total = 0
    for part in range(1 << bits):
        blocks = []
        for block in _blocks(src.size):
            keys = edge_keys.pack(src[block], dst[block])
            blocks.append(np.unique(keys[_part_of(keys, bits) == part] if bits else keys))
        total += np.unique(np.concatenate(blocks)).size if blocks else 0
    return total


def _part_of(keys: Int64, bits: int) -> NDArray[np.uint64]:
    """Return the highest bits of the keys times an odd number near 2 ** 64 / golden ratio (Knuth, 1998, section 6.4): even over many
    pairs."""
    return (keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits)


def _count_duplicates(events: EventStream) -> int:
    """Return events that repeat source, destination and time of another. Those of one time are consecutive: blocks end where the time
    changes."""
    time = events.t
    duplicates = 0
    begin = 0
    while begin < len(events):
        end = len(events) if begin + _BLOCK >= len(events) else int(np.searchsorted(time, time[begin + _BLOCK], "left"))
        if end <= begin:  # a time with more events than a block
            end = int(np.searchsorted(time, time[begin], "right"))
            duplicates += end - begin - distinct_pairs(events.src[begin:end], events.dst[begin:end])
        else:
            keys = edge_keys.pack(events.src[begin:end], events.dst[begin:end])
            order = np.lexsort((keys, time[begin:end]))
            keys, times_in_order = keys[order], time[begin:end][order]
            duplicates += int(np.count_nonzero((keys[1:] == keys[:-1]) & (times_in_order[1:] == times_in_order[:-1])))
        begin = end
    return duplicates


def _blocks(size: int) -> Iterator[slice]:
    return (slice(begin, begin + _BLOCK) for begin in range(0, size, _BLOCK))


def distinct_labels(events: EventStream) -> int:
    """Count the different values among the labels of an event stream; 0 without labels."""
    labels = np.empty(0, np.int64)
    for block in _blocks(0 if events.labels is None else events.labels.size):
        labels = np.union1d(labels, [] if events.labels is None else events.labels[block])
    return labels.size


class StreamShape(NamedTuple):
    """Activity, skew and burstiness of an event stream. active_nodes: those with an event. source_skew, destination_skew: `zipf_exponent`
    of the numbers of events that nodes send, and receive. burstiness: of the gaps between events. NaN where there is nothing to tell it by.
    """

    active_nodes: int
    source_skew: float
    destination_skew: float
    burstiness: float


def stream_shape(events: EventStream) -> StreamShape:
    """Measure an event stream's number of active nodes, skew of sources and destinations, and burstiness, for a dataset's description.

    Reads blocks of events: beside what is mapped, memory is counts of the nodes.
    """
    sent, received = (_events_per_node(end, events.num_nodes) for end in (events.src, events.dst))
    release(events.src)
    release(events.dst)
    active = int(np.count_nonzero(sent + received))
    return StreamShape(active, zipf_exponent(sent), zipf_exponent(received), burstiness(events.t))


def _events_per_node(ids: Int32, num_nodes: int) -> Int64:
    counts = np.zeros(num_nodes, np.int64)
    for block in _blocks(ids.size):
        nodes, occurrences = np.unique(ids[block], return_counts=True)
        counts[nodes] += occurrences
    return counts


def zipf_exponent(counts: Int64) -> float:
    """Estimate how skewed the activity of an event stream's nodes is: the exponent s of Zipf's law, weights rank ** -s, that makes
    `counts`, the events of each node, int64 [N], most likely, for the most active tenth of the nodes, at least ten.

    Only the head is read: below it, counts of one or two say little of a law (Clauset et al., 2009, section 3). From 0 to 10; NaN with
    fewer than two nodes that have events.
    """
    counts = np.sort(counts[counts > 0])[::-1]
    head = counts[: max(-(-counts.size // 10), 10)]
    if head.size < 2:
        return math.nan
    log_rank = np.log(np.arange(1, head.size + 1))
    mean = float(head @ log_rank / head.sum())

    def excess(exponent: float) -> float:
        weights = np.exp(-exponent * log_rank)
        return float(weights @ log_rank / weights.sum()) - mean

    if excess(0.0) <= 0:
        return 0.0
    if excess(10.0) > 0:
        return 10.0
    low, high = 0.0, 10.0  # it falls between them
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low


def burstiness(times: Int64 | Float64) -> float:
    """Measure how bursty an event stream is: (sd - mean) / (sd + mean) of the gaps of its `times` [M], in order: -1 even, 0 Poisson,
    towards 1 bursts (Goh and Barabasi, 2008, eq. 1).

    NaN without a gap, or where all are 0.
    """
    if len(times) < 2 or times[0] == times[-1]:
        return math.nan
    mean = float(times[-1] - times[0]) / (len(times) - 1)
    squares = 0.0
    for begin in range(0, len(times) - 1, _BLOCK):
        squares += float(np.square(np.diff(times[begin : begin + _BLOCK + 1]) - mean).sum())
    deviation = math.sqrt(squares / (len(times) - 1))
    return (deviation - mean) / (deviation + mean)
