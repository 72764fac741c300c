"""A replayer of rows that share resources which has nothing in common with the engines: flows in continuous time, without rounding.

At each moment it works out all speeds anew: of all resources, the one that would be full at the lowest level of what its flows do holds
them there; then the next, of the flows that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Flow = tuple[dict[int, float], float]  # shares of resources at full speed, demand


@dataclass
class Fluid:
    """Rows as lists: the stream and duration (ns) of each, its dependencies and collective (-1: none); of those that take resources, the
    flow and the delay before it (ns)."""

    stream: Sequence[int]
    ns: Sequence[float]
    dependencies: Sequence[Sequence[int]]
    collective: Sequence[int]
    flow: dict[int, Flow]
    delay: Sequence[float]

    def ends(self) -> list[float]:
        """Return when each row ends; those that never start have no end here, which is an error."""
        count = len(self.ns)
        start, end, left = [-1.0] * count, [-1.0] * count, dict[int, float]()
        now = 0.0
        while any(e < 0 for e in end):
            for group in self.ready(start, end):
                first = min(group)
                for row in group:
                    start[row] = now
                    left[row] = self.ns[first if first in self.flow else row]
            moving = {row: self.flow[row] for row in left if row in self.flow and self.waited(row, now - start[row]) and left[row] > 0}
            rate = dict(zip(moving, speeds(list(moving.values())), strict=True))
            after = {row: self.until(row, now - start[row], left[row], rate) for row in left if self.counts(row)}
            step = min(after.values())
            now += step
            for row in [row for row in left if self.counts(row)]:
                left[row] -= step * rate.get(row, 1.0)
                if left[row] <= 1e-7:
                    for other in self.together(row, start):
                        end[other] = now
                        left.pop(other, None)
        return end

    def waited(self, row: int, since: float) -> bool:
        return since >= self.delay[row] - 1e-9

    def until(self, row: int, since: float, left: float, rate: dict[int, float]) -> float:
        """Time to the next change of a running row: the end of its delay, or its own."""
        if row in self.flow and not self.waited(row, since):
            return min(left, self.delay[row] - since)
        return left / rate.get(row, 1.0)

    def counts(self, row: int) -> bool:
        """Is the row the one of its collective whose work is followed?"""
        group = self.collective[row]
        return group < 0 or row == self.collective.index(group)

    def together(self, row: int, start: list[float]) -> list[int]:
        group = self.collective[row]
        return [row] if group < 0 else [other for other, its in enumerate(self.collective) if its == group]

    def ready(self, start: list[float], end: list[float]) -> list[list[int]]:
        """Rows that can start now, a collective's as one."""
        heads, seen = [], set[int]()
        for row, stream in enumerate(self.stream):
            if stream not in seen and end[row] < 0:
                seen.add(stream)
                if start[row] < 0 and all(end[d] >= 0 for d in self.dependencies[row]):
                    heads.append(row)
        single = [[row] for row in heads if self.collective[row] < 0]
        groups = {self.collective[row] for row in heads} - {-1}
        whole = [self.together(self.collective.index(group), start) for group in groups]
        return single + [rows for rows in whole if set(rows) <= set(heads)]


def speeds(flows: list[Flow]) -> list[float]:
    """Speed of each flow: of resources with the lowest level first, all of whose flows are then settled."""
    settled: dict[int, float] = {}
    resources = {r for shares, _ in flows for r in shares}
    while len(settled) < len(flows):
        rising = [i for i in range(len(flows)) if i not in settled]
        levels = {r: level(flows, settled, r) for r in resources if any(r in flows[i][0] for i in rising)}
        tightest = min(levels, key=levels.__getitem__) if levels else None
        lowest = levels[tightest] if tightest is not None else float("inf")
        content = [i for i in rising if flows[i][1] <= lowest]
        if content:
            settled |= dict.fromkeys(content, 1.0)
        else:
            settled |= {i: lowest / flows[i][1] for i in rising if tightest in flows[i][0]}
    return [settled[i] for i in range(len(flows))]


def level(flows: list[Flow], settled: dict[int, float], resource: int) -> float:
    """Level at which a resource would be full: flows do that much, or all that they demand."""
    room = 1.0 - sum(flows[i][0].get(resource, 0.0) * speed for i, speed in settled.items())
    rising = sorted((flows[i][1], flows[i][0][resource]) for i in range(len(flows)) if i not in settled and resource in flows[i][0])
    slope = sum(share / demand for demand, share in rising)
    for demand, share in rising:
        if slope * demand >= room + 1e-15:
            return room / slope
        room -= share
        slope -= share / demand
    return float("inf")
