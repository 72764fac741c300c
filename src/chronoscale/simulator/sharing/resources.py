"""Shared resources in SimPy: rows that run at one time and ask for more than there is slow one another down.

csrc/cpu/sharing.cpp computes the same sums in the same order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

import simpy

from chronoscale.simulator.sharing.shares import Shares
from chronoscale.simulator.timed_event import TimedEvent

LAST = simpy.events.EventPriority(2)  # priority: after all that happens at an instant
Entries = Mapping[int, float]  # share of each resource


@dataclass(slots=True)
class Activity:
    """Row that is running: `left` ns of it at full speed as of time `since`. version: how often its speed has changed."""

    taken: Entries
    demand: float
    left: float
    since: int
    speed: float = 0.0
    version: int = 0


class SharedResources:
    """Rows that run on shared resources at the present moment of a SimPy environment, and how fast."""

    def __init__(self, env: simpy.Environment, shares: Shares) -> None:
        self._env, self._shares = env, shares
        self._active, self._over = dict[int, Activity](), dict[int, TimedEvent]()
        self._users = defaultdict[int, set[int]](set)  # of each resource
        self._touched = set[int]()  # resources, since speeds were settled

    def over(self, row: int, begin: int, ns: int) -> TimedEvent:
        """Return the event that marks the end of a row that begins at `begin`, not before the present, and takes `ns` uncontended."""
        if row not in self._over:
            delay = int(self._shares.delay_ns[row])
            self._over[row] = TimedEvent(self._env)
            self._then(begin + delay, lambda: self._enter(row, ns - delay))
        return self._over[row]

    def _then(self, time: int, act: Callable[[], None]) -> None:
        moment = TimedEvent(self._env)
        assert moment.callbacks is not None
        moment.callbacks.append(lambda _: act())
        moment.trigger_at(time)

    def _enter(self, row: int, ns: int) -> None:
        span = slice(self._shares.ptr[row], self._shares.ptr[row + 1])
        taken = dict(zip(self._shares.resource[span].tolist(), self._shares.share[span].tolist(), strict=True))
        self._active[row] = Activity(taken, float(self._shares.demand[row]), float(ns), int(self._env.now))
        self._touch(taken)
        for resource in taken:
            self._users[resource].add(row)

    def _leave(self, row: int, version: int) -> None:
        if (one := self._active.get(row)) is not None and one.version == version:
            del self._active[row]
            self._over.pop(row).trigger_at(int(self._env.now))
            self._touch(one.taken)
            for resource in one.taken:
                self._users[resource].discard(row)

    def _touch(self, resources: Entries) -> None:
        """Let speeds be settled, once an instant and after all else that happens at it: what is running then ends later."""
        if not self._touched:
            moment = TimedEvent(self._env)
            assert moment.callbacks is not None
            moment.callbacks.append(lambda _: self._settle())
            moment.trigger_at(int(self._env.now), LAST)
        self._touched.update(resources)

    def _settle(self) -> None:
        now, rows = int(self._env.now), sorted(self._joined())
        self._touched.clear()
        active = [self._active[row] for row in rows]
        for row, one, speed in zip(rows, active, speeds([one.taken for one in active], [one.demand for one in active]), strict=True):
            if speed != one.speed:
                one.left -= (now - one.since) * one.speed
                one.since, one.speed, one.version = now, speed, one.version + 1
                self._then(now + max(1, round(one.left / speed)), partial(self._leave, row, one.version))

    def _joined(self) -> set[int]:
        """Return the rows whose speeds may change: those on a resource that a row has come to or left, and all that full resources join to
        them.
        """
        found, full = set[int](), set[int]()
        ahead = {row for resource in self._touched for row in self._users[resource]}
        while ahead:
            found.add(row := ahead.pop())
            for resource in self._active[row].taken.keys() - full:
                if sum(self._active[one].taken[resource] for one in self._users[resource]) > 1:
                    full.add(resource)
                    ahead |= self._users[resource] - found
        return found


def speeds(taken: Sequence[Entries], demand: Sequence[float]) -> list[float]:
    """Return how fast activities run at one time, 0 < speed <= 1, from the shares that each takes when uncontended and what it demands.

    Max-min fairness by progressive filling (Bertsekas, Gallager: Data Networks, 6.5.2): the level of what all do rises, in the unit of
    demand, until an activity does all that it demands or a resource of its own is full. None can then do more but at the cost of one that
    does no more than it.
    """
    load: dict[int, float] = {}
    for one in taken:
        for resource, share in one.items():
            load[resource] = load.get(resource, 0.0) + share
    room = {resource: 1.0 for resource, total in load.items() if total > 1}
    found, open_ = [0.0] * len(taken), list(range(len(taken)))
    while open_:
        slope = dict.fromkeys(room, 0.0)
        for i in open_:
            for resource, share in taken[i].items():
                if resource in room:
                    slope[resource] += share / demand[i]
        levels = {resource: room[resource] / slope[resource] if slope[resource] > 0 else inf for resource in room}
        level = min([*levels.values(), *(demand[i] for i in open_)])
        still = []
        for i in open_:
            held = any(resource in room and levels[resource] <= level for resource in taken[i])
            if demand[i] > level and not held:
                still.append(i)
                continue
            found[i] = 1.0 if demand[i] <= level else level / demand[i]
            for resource, share in taken[i].items():
                if resource in room:
                    room[resource] -= share * found[i]
        open_ = still
    return found
