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
    """Task that is running in the SimPy simulation: `left` ns of it at full speed as of time `since`.

    entries: resource -> share that it takes alone. version: how often its speed has changed.
    """

    entries: Entries
    demand: float
    left: float
    since: int
    speed: float = 0.0
    version: int = 0


class SharedResources:
    """Resources (device memory, SMs, links) of a SimPy simulation, the tasks that run on them at present, and how fast."""

    def __init__(self, env: simpy.Environment, shares: Shares) -> None:
        self._env, self._shares = env, shares
        self._active, self._over = dict[int, Activity](), dict[int, TimedEvent]()
        self._users = defaultdict[int, set[int]](set)  # of each resource
        self._touched = set[int]()  # resources, since speeds were settled

    def end_of(self, row: int, begin: int, ns: int) -> TimedEvent:
        """Return the simulation's event that marks the end of a task, which others may slow down until then.

        row: of the task. begin: when it begins, not before the present; ns: what it takes alone.
        """
        if row not in self._over:
            delay = int(self._shares.delay_ns[row])
            self._over[row] = TimedEvent(self._env)
            self._call_at(begin + delay, lambda: self._enter(row, ns - delay))
        return self._over[row]

    def _call_at(self, time: int, act: Callable[[], None]) -> None:
        """Call `act` at `time` (ns)."""
        moment = TimedEvent(self._env)
        assert moment.callbacks is not None
        moment.callbacks.append(lambda _: act())
        moment.trigger_at(time)

    def _enter(self, row: int, ns: int) -> None:
        """Start a row that has `ns` of work at full speed."""
        span = slice(self._shares.ptr[row], self._shares.ptr[row + 1])
        entries = dict(zip(self._shares.resource[span].tolist(), self._shares.share[span].tolist(), strict=True))
        self._active[row] = Activity(entries, float(self._shares.demand[row]), float(ns), int(self._env.now))
        self._touch(entries)
        for resource in entries:
            self._users[resource].add(row)

    def _leave(self, row: int, version: int) -> None:
        """End a row, unless its speed has changed since this end was foreseen (`version`)."""
        if (activity := self._active.get(row)) is not None and activity.version == version:
            del self._active[row]
            self._over.pop(row).trigger_at(int(self._env.now))
            self._touch(activity.entries)
            for resource in activity.entries:
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
        """Work out new speeds at the present moment, and when rows end at them."""
        now, rows = int(self._env.now), sorted(self._affected())
        self._touched.clear()
        active = [self._active[row] for row in rows]
        for row, activity, speed in zip(
            rows, active, speeds([activity.entries for activity in active], [activity.demand for activity in active]), strict=True
        ):
            if speed != activity.speed:
                activity.left -= (now - activity.since) * activity.speed
                activity.since, activity.speed = now, speed
                activity.version += 1
                self._call_at(now + max(1, round(activity.left / speed)), partial(self._leave, row, activity.version))

    def _affected(self) -> set[int]:
        """Return the rows whose speeds may change: those on a resource that a row has come to or left, and all that full resources join to
        them.
        """
        affected, full = set[int](), set[int]()
        ahead = {row for resource in self._touched for row in self._users[resource]}
        while ahead:
            affected.add(row := ahead.pop())
            for resource in self._active[row].entries.keys() - full:
                if sum(self._active[other].entries[resource] for other in self._users[resource]) > 1:
                    full.add(resource)
                    ahead |= self._users[resource] - affected
        return affected


def speeds(shares: Sequence[Entries], demand: Sequence[float]) -> list[float]:
    """Return how fast simulated tasks run at one time, 0 < speed <= 1, where they share resources.

    shares: of each task, what it takes of resources when alone; demand: what it does then, in a common unit. Max-min fairness by
    progressive filling (Bertsekas, Gallager: Data Networks, 6.5.2): the level of what all do rises, in the unit of demand, until a task
    does all that it demands or a resource of its own is full. None can then do more but at the cost of one that does no more than it.
    """
    load: dict[int, float] = {}
    for entries in shares:
        for resource, share in entries.items():
            load[resource] = load.get(resource, 0.0) + share
    room = {resource: 1.0 for resource, total in load.items() if total > 1}
    result, unfinished = [0.0] * len(shares), list(range(len(shares)))
    while unfinished:
        slope = dict.fromkeys(room, 0.0)
        for i in unfinished:
            for resource, share in shares[i].items():
                if resource in room:
                    slope[resource] += share / demand[i]
        levels = {resource: room[resource] / slope[resource] if slope[resource] > 0 else inf for resource in room}
        level = min([*levels.values(), *(demand[i] for i in unfinished)])
        growing = []
        for i in unfinished:
            is_full = any(resource in room and levels[resource] <= level for resource in shares[i])
            if demand[i] > level and not is_full:
                growing.append(i)
                continue
            result[i] = 1.0 if demand[i] <= level else level / demand[i]
            for resource, share in shares[i].items():
                if resource in room:
                    room[resource] -= share * result[i]
        unfinished = growing
    return result
