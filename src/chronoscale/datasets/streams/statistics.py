"""What planning needs of a stream of events (BatchStatistics), and what describes one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq

from chronoscale.datasets.arrays import Float64, Int32, Int64, check_columns
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.streams.events import EventStream

_BLOCK = 1 << 20  # events read at a time


@dataclass(frozen=True, slots=True, eq=False)
class BatchStatistics:
    """int64 [B], one entry a batch of events, from one pass of the sampler."""

    family: ClassVar[str] = "streams"
    events: Int64
    sampled: Int64  # neighbour slots filled, all layers
    unique_nodes: Int64
    unique_edges: Int64
    updated_nodes: Int64  # rows of memory written
    remote_nodes: Int64  # rows that another rank owns

    def __post_init__(self) -> None:
        check_columns(self, self.events.shape)

    def __len__(self) -> int:
        return len(self.events)


class Counts(NamedTuple):
    """Of a stream. self_loops: events from a node to itself. pairs: distinct (src, dst). duplicates: events that repeat the src, dst and
    time of another. repetition: share of the events that repeat a pair; 0 without events."""

    self_loops: int
    pairs: int
    duplicates: int
    repetition: float


def count(events: EventStream) -> Counts:
    """In one sort."""
    keys = edge_keys.pack(events.src, events.dst)
    order = np.lexsort((keys, events.t))
    keys_by_time, time = keys[order], np.asarray(events.t)[order]
    again = (keys_by_time[1:] == keys_by_time[:-1]) & (time[1:] == time[:-1])
    pairs = np.unique(keys).size
    loops = int(np.count_nonzero(events.src == events.dst))
    return Counts(loops, pairs, int(np.count_nonzero(again)), 1 - pairs / max(len(events), 1))


class Shape(NamedTuple):
    """Of a stream. active_nodes: those with an event. source_skew, destination_skew: `zipf_exponent` of the events that nodes send, and
    receive. burstiness: of the gaps between events. NaN where there is nothing to tell it by."""

    active_nodes: int
    source_skew: float
    destination_skew: float
    burstiness: float


def shape(events: EventStream) -> Shape:
    """In blocks of events: beside what is mapped, memory is counts of the nodes."""
    sent, received = (_tally(end, events.num_nodes) for end in (events.src, events.dst))
    active = int(np.count_nonzero(sent + received))
    return Shape(active, zipf_exponent(sent), zipf_exponent(received), burstiness(events.t))


def _tally(ids: Int32, num_nodes: int) -> Int64:
    counts = np.zeros(num_nodes, np.int64)
    for begin in range(0, ids.size, _BLOCK):
        found, times = np.unique(ids[begin : begin + _BLOCK], return_counts=True)
        counts[found] += times
    return counts


def zipf_exponent(counts: Int64) -> float:
    """The most likely s for which the most active tenth of the nodes, at least ten, has its `counts` int64 [N] by weights rank ** -s.

    Only the head is read: below it, counts of one or two say little of a law (Clauset et al., 2009, section 3). From 0 to 10; NaN with
    fewer than two nodes that count.
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
    return 10.0 if excess(10.0) > 0 else float(brentq(excess, 0.0, 10.0))


def burstiness(times: Int64 | Float64) -> float:
    """(sd - mean) / (sd + mean) of the gaps of `times` [M], in order: -1 even, 0 Poisson, towards 1 bursts (Goh and Barabasi, 2008, eq. 1).

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
