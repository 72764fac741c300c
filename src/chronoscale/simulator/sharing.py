"""Sharing: activities on resources that may be asked for more than they have, in SimPy; csrc/cpu/sharing.cpp does the same sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf

import simpy

from chronoscale.simulator.moment import Moment
from chronoscale.simulator.shares import Shares

LAST = 2  # priority: after all that happens at an instant
Entries = Mapping[int, float]  # share of each resource


@dataclass(slots=True)
class Activity:
    """A row under way: `left` ns of it at full speed as of `since`. version: how often its speed has changed."""

    taken: Entries
    left: float
    since: int
    speed: float = 0.0
    version: int = 0


class Sharing:
    """What is under way at an environment's present moment."""

    def __init__(self, env: simpy.Environment, shares: Shares) -> None:
        self._env, self._shares = env, shares
        self._active, self._over = dict[int, Activity](), dict[int, Moment]()
        self._settling = False

    def over(self, row: int, begin: int, ns: int) -> Moment:
        """The end of a row that begins at `begin`, not before now, and takes `ns` alone."""
        if row not in self._over:
            delay = int(self._shares.delay_ns[row])
            self._over[row] = Moment(self._env)
            self._then(begin + delay, lambda: self._enter(row, ns - delay))
        return self._over[row]

    def _then(self, time: int, act: Callable[[], None]) -> None:
        moment = Moment(self._env)
        assert moment.callbacks is not None
        moment.callbacks.append(lambda _: act())
        moment.at(time)

    def _enter(self, row: int, ns: int) -> None:
        span = slice(self._shares.ptr[row], self._shares.ptr[row + 1])
        taken = dict(zip(self._shares.resource[span].tolist(), self._shares.share[span].tolist(), strict=True))
        self._active[row] = Activity(taken, float(ns), int(self._env.now))
        self._changed()

    def _leave(self, row: int, version: int) -> None:
        if (one := self._active.get(row)) is not None and one.version == version:
            del self._active[row]
            self._over.pop(row).at(int(self._env.now))
            self._changed()

    def _changed(self) -> None:
        """Speeds are settled once an instant, when all that happens at it has."""
        if not self._settling:
            self._settling = True
            moment = Moment(self._env)
            assert moment.callbacks is not None
            moment.callbacks.append(lambda _: self._settle())
            moment.at(int(self._env.now), LAST)

    def _settle(self) -> None:
        self._settling, now = False, int(self._env.now)
        rows = sorted(self._active)
        for row, speed in zip(rows, speeds([self._active[row].taken for row in rows]), strict=True):
            one = self._active[row]
            if speed != one.speed:
                one.left -= (now - one.since) * one.speed
                one.since, one.speed, one.version = now, speed, one.version + 1
                self._then(now + max(0, round(one.left / speed)), partial(self._leave, row, one.version))


def speeds(taken: Iterable[Entries]) -> list[float]:
    """Of activities, each with the shares it takes alone: how fast they are side by side, 0 < speed <= 1 (max-min fairness).

    By progressive filling: all take more and more of the resource that they need most, at one level, until they have what they need or a
    resource of theirs is full.
    """
    of = list(taken)
    load: dict[int, float] = {}
    for one in of:
        for resource, share in one.items():
            load[resource] = load.get(resource, 0.0) + share
    cap = [max(one.values()) for one in of]
    room = {resource: 1.0 for resource, total in load.items() if total > 1}
    found, open_ = [0.0] * len(of), list(range(len(of)))
    while open_:
        slope = dict.fromkeys(room, 0.0)
        for i in open_:
            for resource, share in of[i].items():
                if resource in room:
                    slope[resource] += share / cap[i]
        levels = {resource: room[resource] / slope[resource] if slope[resource] > 0 else inf for resource in room}
        level = min([*levels.values(), *(cap[i] for i in open_)])
        still = []
        for i in open_:
            held = any(resource in room and levels[resource] <= level for resource in of[i])
            if cap[i] > level and not held:
                still.append(i)
                continue
            found[i] = 1.0 if cap[i] <= level else level / cap[i]
            for resource, share in of[i].items():
                if resource in room:
                    room[resource] -= share * found[i]
        open_ = still
    return found
