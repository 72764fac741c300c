"""Reference of one pass of the restreaming partitioner of event streams in plain Python."""

from __future__ import annotations

from math import ceil
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_SHARED, _UNSEEN = -1, -2


class Weighing(Protocol):
    """Interface of the settings that a pass reads: the fields of `RestreamSettings`, which explains them."""

    @property
    def batch(self) -> int: ...
    @property
    def fanout(self) -> int: ...
    @property
    def node_bytes(self) -> float: ...
    @property
    def event_bytes(self) -> float: ...
    @property
    def charge(self) -> float: ...
    @property
    def batch_slack(self) -> float: ...
    @property
    def total_slack(self) -> float: ...


class RestreamState(Protocol):
    """Interface of the state that a pass reads and writes: the fields of `RestreamPass`, which explains them."""

    @property
    def settings(self) -> Weighing: ...
    @property
    def parts(self) -> int: ...
    @property
    def node(self) -> NDArray[np.int32]: ...
    @property
    def pull(self) -> NDArray[np.float64]: ...
    @property
    def recent(self) -> NDArray[np.int32]: ...
    @property
    def degree(self) -> NDArray[np.int64]: ...
    @property
    def reads(self) -> NDArray[np.int32]: ...
    @property
    def slots(self) -> NDArray[np.int64]: ...
    @property
    def load(self) -> NDArray[np.int64]: ...
    @property
    def event_rows(self) -> NDArray[np.int64]: ...


def assign(state: RestreamState, src: NDArray[np.int32], dst: NDArray[np.int32], out: NDArray[np.int32]) -> None:
    """Assign the next events of a stream to parts in Python, the reference of the native restreaming partitioner: parts go into `out` [M].

    state: what it remembers of the events before, updated. src, dst int32 [M]: the events. Numbers that decide are added up in the native
    pass's order, so that results are the same to the last bit where bytes are whole numbers.
    """
    size, first = state.parts * state.settings.batch, int(state.load.sum())
    for begin in range(0, src.size, size):
        ends = list(zip(src[begin : begin + size].tolist(), dst[begin : begin + size].tolist(), strict=True))
        parts = _place(state, ends, first + begin)
        for part in range(state.parts):
            _read(state, [v for v in dict.fromkeys(v for pair in ends for v in pair) if (v, part) in parts.present], part)
        for place, (u, v) in enumerate(ends):
            for end, other in dict.fromkeys([(u, v), (v, u)]):
                slot = state.degree[end] % state.settings.fanout
                state.recent[end, slot] = other, first + begin + place, parts.events[place]
                state.degree[end] += 1
        out[begin : begin + size] = parts.events


class _Placed:
    """Events of a batch that are placed: the part of each, and which parts have one of a node's."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.present: set[tuple[int, int]] = set()


def _place(state: RestreamState, ends: list[tuple[int, int]], first: int) -> _Placed:
    """Place the events of a batch, which begins with event `first`."""
    placed, quota = _Placed(), _quotas(state, first + len(ends), len(ends))
    bytes_of: dict[int, list[float]] = {}
    for u, v in ends:
        for end in (u, v):
            if end not in bytes_of:
                bytes_of[end] = [_bytes(state, end, part) for part in range(state.parts)]
        costs = {}
        for part in range(state.parts):
            if quota[part] < 1:
                continue
            cost = state.settings.charge * float(state.load[part])
            for end in dict.fromkeys((u, v)):
                cost += (0.0 if (end, part) in placed.present else bytes_of[end][part]) - float(state.pull[end, part])
            costs[part] = cost
        chosen = min(costs, key=lambda part: (costs[part], int(state.load[part])))
        quota[chosen] -= 1
        state.load[chosen] += 1
        for end in (u, v):
            placed.present.add((end, chosen))
            if state.node[end] == _UNSEEN:
                state.node[end] = chosen
        placed.events.append(chosen)
    return placed


def _quotas(state: RestreamState, end: int, count: int) -> list[int]:
    """Return how many events of a batch of `count` each part may get; `end`: events of the stream up to its last."""
    settings, parts = state.settings, state.parts
    most = ceil((1.0 + settings.batch_slack) * count / parts)
    total = int((1.0 + settings.total_slack) * end / parts) + 1
    return [min(most, max(total - load, -(-count // parts))) for load in state.load.tolist()]


def _recent(state: RestreamState, node: int) -> list[list[int]]:
    """Return other end, number and part of a node's latest events before the batch."""
    rows: list[list[int]] = state.recent[node, : state.degree[node]].tolist()
    return rows


def _bytes(state: RestreamState, node: int, part: int) -> float:
    """Return the bytes that a part would fetch for a root: its row, its recent events, and the rows of their other ends."""
    recent = _recent(state, node)
    away = [int(state.node[v]) not in (part, _SHARED, _UNSEEN) for v in (node, *(other for other, _, _ in recent))]
    return state.settings.node_bytes * sum(away) + state.settings.event_bytes * sum(where != part for _, _, where in recent)


def _read(state: RestreamState, roots: list[int], part: int) -> None:
    """Count what a part reads for its roots of a batch, each row once."""
    recent = {root: _recent(state, root) for root in roots}
    nodes = {*roots, *(other for rows in recent.values() for other, _, _ in rows)}
    events = {number: where for rows in recent.values() for _, number, where in rows}
    for node in nodes:
        state.reads[node, part] += 1
    for root in roots:
        state.slots[root, part] += len(recent[root])
    state.event_rows[0] += sum(where != part for where in events.values())
