"""Streaming in plain Python: what the native pass is compared with, and what runs where there is none."""

from __future__ import annotations

from math import exp
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_SHARED, _UNSEEN = -1, -2
_MOST = 64.0  # powers of e by which a row's sums are scaled at most
_SPARE = 1.5


class Carried(Protocol):
    """streaming.Streaming."""

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
    def held(self) -> NDArray[np.int64]: ...
    @property
    def events(self) -> NDArray[np.int64]: ...
    @property
    def clock(self) -> NDArray[np.float64]: ...


def assign(s: Carried, src: NDArray[np.int32], dst: NDArray[np.int32], time: NDArray[np.float64], out: NDArray[np.int32]) -> None:
    """As streaming.Streaming.take, and the same operations in the same order, so that results are the same to the last bit."""
    for at, (u, v, t) in enumerate(zip(src.tolist(), dst.tolist(), time.tolist(), strict=True)):
        part = _chosen(s, u, v, t)
        for end in (u, v):
            if s.node[end] == _UNSEEN:
                s.node[end] = part
                s.held[part] += 1
        for end in {u, v}:
            _add(s, end, part, t)
        s.events[part] += 1
        s.clock[part] = s.clock[part] + t if s.rule == "average" else t
        out[at] = part


def _chosen(s: Carried, u: int, v: int, time: float) -> int:
    for end, other in ((u, v), (v, u)):
        if s.node[end] == _SHARED and s.node[other] >= 0:
            return int(s.node[other])
    weights = (_average if s.rule == "average" else _attention)(s, time)
    from_u, from_v = (exp(-(s.decay * (time - float(s.since[end])))) for end in (u, v))
    sums = zip(s.attention[u].tolist(), s.attention[v].tolist(), weights, strict=True)
    scores = [(of_u * from_u + of_v * from_v + 1.0) * weight for of_u, of_v, weight in sums]
    return scores.index(max(scores))


def _attention(s: Carried, _: float) -> list[float]:
    """Eq. 12 to 15."""
    held, events, clock = s.held.tolist(), s.events.tolist(), s.clock.tolist()
    weights = []
    for of_nodes, of_events, last in zip(held, events, clock, strict=True):
        by_nodes = 1.0 - (of_nodes - min(held)) / (1 + max(held) - min(held))
        by_events = 1.0 - (of_events - min(events)) / (1 + max(events) - min(events))
        by_time = exp((min(clock) - last) / (max(clock) - min(clock))) if max(clock) > min(clock) else 1.0
        weights.append(by_nodes * by_events * by_time)
    return weights


def _average(s: Carried, time: float) -> list[float]:
    events, clock = s.events.tolist(), s.clock.tolist()
    load, mean = _SPARE * (sum(events) / len(events)), (_sum(clock) + time) / (sum(events) + 1.0)
    weights = []
    for own, times in zip(events, clock, strict=True):
        room = max(0.0, 1.0 - own / load) if load > 0 else 1.0
        near = exp(-(abs((times + time) / (own + 1.0) - mean) / mean)) if mean > 0 else 1.0
        weights.append(room * near)
    return weights


def _sum(numbers: list[float]) -> float:
    """From left to right: `sum` of floats compensates from Python 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def _add(s: Carried, node: int, part: int, time: float) -> None:
    grown = s.decay * (time - float(s.since[node]))
    if grown > _MOST:
        s.attention[node] *= exp(-grown)
        s.since[node], grown = time, 0.0
    s.attention[node, part] += exp(grown)
