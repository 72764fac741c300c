"""Reference of the one-pass partitioner of event streams in plain Python."""

from __future__ import annotations

from math import exp
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_SHARED, _UNSEEN = -1, -2
_MOST = 64.0  # powers of e by which a row's sums are scaled at most
_SPARE = 1.5


class Carried(Protocol):
    """Interface of the state that a one-pass partitioner reads and writes: the fields of `EventPartitioner`, which explains them."""

    @property
    def rule(self) -> str: ...
    @property
    def decay(self) -> float: ...
    @property
    def node(self) -> NDArray[np.int32]: ...
    @property
    def attention(self) -> NDArray[np.float64]: ...
    @property
    def since(self) -> NDArray[np.float64]: ...
    @property
    def node_counts(self) -> NDArray[np.int64]: ...
    @property
    def events(self) -> NDArray[np.int64]: ...
    @property
    def clock(self) -> NDArray[np.float64]: ...


def assign(state: Carried, src: NDArray[np.int32], dst: NDArray[np.int32], time: NDArray[np.float64], out: NDArray[np.int32]) -> None:
    """Assign the next events of a stream to parts in Python, the reference of the native streaming partitioner: parts go into `out` [M].

    state: what it remembers of the events before (parts of nodes, sizes of parts ...), updated. src, dst int32 [M], time float64 [M]: the
    events. Operations and their order are those of the native pass, so that results are the same to the last bit.
    """
    for i, (u, v, t) in enumerate(zip(src.tolist(), dst.tolist(), time.tolist(), strict=True)):
        part = _chosen(state, u, v, t)
        for end in (u, v):
            if state.node[end] == _UNSEEN:
                state.node[end] = part
                state.node_counts[part] += 1
        for end in {u, v}:
            _add(state, end, part, t)
        state.events[part] += 1
        state.clock[part] = state.clock[part] + t if state.rule == "average" else t
        out[i] = part


def _chosen(state: Carried, u: int, v: int, time: float) -> int:
    """Return the part of an event (u, v): that of an end whose other end is shared, else the one of the highest score, the lowest of
    equals.
    """
    for end, other in ((u, v), (v, u)):
        if state.node[end] == _SHARED and state.node[other] >= 0:
            return int(state.node[other])
    weights = (_average if state.rule == "average" else _attention)(state, time)
    from_u, from_v = (exp(-(state.decay * (time - float(state.since[end])))) for end in (u, v))
    sums = zip(state.attention[u].tolist(), state.attention[v].tolist(), weights, strict=True)
    scores = [(of_u * from_u + of_v * from_v + 1.0) * weight for of_u, of_v, weight in sums]
    return scores.index(max(scores))


def _attention(state: Carried, _: float) -> list[float]:
    """Return the balance BN · BE · BT of each part (MemShare, eq. 12 to 15)."""
    node_counts, events, clock = state.node_counts.tolist(), state.events.tolist(), state.clock.tolist()
    weights = []
    for node_count, event_count, last in zip(node_counts, events, clock, strict=True):
        by_nodes = 1.0 - (node_count - min(node_counts)) / (1 + max(node_counts) - min(node_counts))
        by_events = 1.0 - (event_count - min(events)) / (1 + max(events) - min(events))
        by_time = exp((min(clock) - last) / (max(clock) - min(clock))) if max(clock) > min(clock) else 1.0
        weights.append(by_nodes * by_events * by_time)
    return weights


def _average(state: Carried, time: float) -> list[float]:
    """Return the balance of each part by load and average time (DisTGL)."""
    events, clock = state.events.tolist(), state.clock.tolist()
    load, mean = _SPARE * (sum(events) / len(events)), (_sum(clock) + time) / (sum(events) + 1.0)
    weights = []
    for own, times in zip(events, clock, strict=True):
        room = max(0.0, 1.0 - own / load) if load > 0 else 1.0
        near = exp(-(abs((times + time) / (own + 1.0) - mean) / mean)) if mean > 0 else 1.0
        weights.append(room * near)
    return weights


def _sum(numbers: list[float]) -> float:
    """Add numbers up from left to right: `sum` of floats compensates for rounding from Python 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def _add(state: Carried, node: int, part: int, time: float) -> None:
    """Add an event to a node's attention to a part; sums are rescaled before they overflow."""
    exponent = state.decay * (time - float(state.since[node]))
    if exponent > _MOST:
        state.attention[node] *= exp(-exponent)
        state.since[node], exponent = time, 0.0
    state.attention[node, part] += exp(exponent)
