"""A training that fails, told by SimPy's clock: a process that trains iteration by iteration, and one that makes it fail."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import simpy

from chronoscale.simulator.failures.fault_plan import FailurePositions, FaultPlan
from chronoscale.simulator.failures.pace import Pace
from chronoscale.simulator.failures.training import Ended


class Told:
    """`ended`, at `env.now`, after `done` iterations at the last pace."""

    def __init__(
        self,
        plan: FaultPlan,
        ends: list[int],
        ranks: int,
        epochs: int,
        points: FailurePositions,
        on: Callable[[int], Pace | None],
        seed: int,
        most: int,
    ):
        self.most = most
        self.env, self.plan, self.ends, self.ranks, self.epochs, self.on = simpy.Environment(), plan, ends, ranks, epochs, on
        self.points, self.times = list(points.positions), sorted(round(time * 1e9) for time in plan.times_s)
        self.numbers = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        self.left, self.since, self.changed = self.draw(), 0, self.env.event()
        self.failures = self.restarts = self.done = self.saved = 0
        self.ended: Ended = "endless"
        self.training = self.env.process(self.train())
        self.env.process(self.fail())
        self.env.run(self.training)

    def draw(self) -> int | None:
        return None if self.plan.mtbf_s is None else int(self.numbers.exponential(self.plan.mtbf_s * 1e9))

    def age(self) -> None:
        if self.left is not None:
            self.left -= self.ranks * (self.env.now - self.since)
        self.since = self.env.now

    def fail(self):
        """Interrupts the training at given and at random times; looks anew where the number of ranks has changed."""
        while True:
            self.age()
            found = self.times[:1] + ([] if self.left is None else [self.env.now - (-self.left // self.ranks)])
            if not found:
                return
            self.changed = self.env.event()
            due = self.env.timeout(max(0, min(found) - self.env.now))
            yield due | self.changed
            if not due.processed:
                continue
            if not self.training.is_alive:
                return
            self.age()
            if self.times and self.times[0] <= self.env.now:
                self.times.pop(0)
            else:
                self.left = self.draw()
            self.training.interrupt()

    def train(self):
        every = self.plan.every
        while True:
            total = len(self.ends) * self.epochs
            try:
                while self.done < total:
                    place = self.done % len(self.ends)
                    length = self.ends[place] - (self.ends[place - 1] if place else 0)
                    if self.points and self.points[0][0] == self.done:
                        yield self.env.timeout(self.points[0][1])
                        self.points.pop(0)
                        raise simpy.Interrupt(None)
                    yield self.env.timeout(length)
                    self.done += 1
                    if self.done % every == 0 and self.done < total:
                        yield self.env.timeout(round(self.plan.checkpoint_s * 1e9))
                        self.saved = self.done
                self.ended = "trained"
                return
            except simpy.Interrupt:
                self.done = self.saved
                if (yield from self.recover()):
                    return

    def recover(self):
        while True:
            self.failures += 1
            if self.plan.policy == "stop":
                self.ended = "stopped"
                return True
            if self.plan.policy == "shrink":
                self.age()
                self.ranks, self.points = self.ranks - 1, []
                if not self.ranks:
                    self.ended = "too few ranks"
                    return True
                if not self.changed.triggered:
                    self.changed.succeed()
            if self.failures >= self.most:
                self.ended = "endless"
                return True
            try:
                yield self.env.timeout(round(self.plan.detect_s * 1e9) + round(self.plan.restart_s * 1e9))
                break
            except simpy.Interrupt:
                continue
        if self.plan.policy == "shrink":
            pace = self.on(self.ranks)
            if pace is None:
                self.ended = "too few ranks"
                return True
            epoch, rest = divmod(self.done, len(self.ends))
            self.done = self.saved = epoch * pace.iterations + rest * pace.iterations // len(self.ends)
            self.ends = pace.ends.tolist()
        self.restarts += 1
        return False
