"""Training: many epochs on devices that fail, with checkpoints; after a failure restarted, on fewer ranks, or given up.

Training goes on iteration by iteration at the pace of its schedule. After every `every` iterations but the last it stops to write a
checkpoint. A failure takes one rank away, and what was done since the last complete checkpoint, or the start, is lost. Then, by the policy,

- stop: the training is over;
- restart: the other ranks notice after `detect_s`; after `restart_s` more training goes on from that checkpoint on as many ranks, one of
  them a spare;
- shrink: after as long it goes on from that checkpoint on one rank less, by the schedule for that many. The share of its epoch that was
  trained carries over, in whole iterations. Where there is no schedule for so few ranks the training is over.

A failure before training goes on begins detection anew. A failure at the instant at which a checkpoint, a recovery or the training ends
comes after it. Failures come at stated times; at stated tasks of the first schedule, half way through the task, when training first gets
there, as long as that schedule is the one that is run; and at random: each device that takes part fails after an exponential time with mean
`mtbf_s`. After MOST_FAILURES failures the training counts as endless. Times are whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from chronoscale.simulator.failures.fault_plan import FailurePositions, FaultPlan
from chronoscale.simulator.failures.pace import Pace

Ended = Literal["trained", "stopped", "too few ranks", "endless"]
MOST_FAILURES = 10_000  # failures
NO_POSITIONS = FailurePositions(())


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Result of one simulated training on devices that fail.

    ended: how; ranks: on how many; done: what share of it was trained; restarts: how often it went on. ns = useful_ns (iterations that are
    kept) + writing_ns (checkpoints that are kept) + lost_ns (iterations repeated, detection, restarts).
    """

    ended: Ended
    ns: int
    useful_ns: int
    writing_ns: int
    lost_ns: int
    failures: int
    restarts: int
    ranks: int
    done: float


def simulate_training(
    plan: FaultPlan,
    pace: Pace,
    ranks: int,
    epochs: int,
    points: FailurePositions = NO_POSITIONS,
    on: Callable[[int], Pace | None] = lambda ranks: None,
    seed: int = 0,
    draw: int = 0,
    most: int = MOST_FAILURES,
) -> TrainingResult:
    """Simulate a training of `epochs` epochs on devices that fail, begun on `ranks` ranks at `pace`, until it ends.

    plan: failures, checkpoints and what follows a failure. points: failures at tasks of its schedule (`FailurePositions.of`); on: returns
    the pace on fewer ranks, None where there is no schedule for that many; most: failures after which it counts as endless. Equal seeds and
    draws fail at equal times.
    """
    numbers = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(draw,)))
    return _Training(plan, pace, ranks, epochs, list(points.positions), on, numbers, most).run()


class _Training:
    """State of a training at time `now`, with `done` iterations in its last checkpoint.

    due: device nanoseconds until the next failure at random.
    """

    def __init__(
        self,
        plan: FaultPlan,
        pace: Pace,
        ranks: int,
        epochs: int,
        points: list[tuple[int, int]],
        on: Callable[[int], Pace | None],
        numbers: np.random.Generator,
        most: int,
    ) -> None:
        self.plan = plan
        self.pace, self.ranks, self.epochs = pace, ranks, epochs
        self.points, self.times = points, sorted(map(_ns, plan.times_s))
        self.on = on
        self.numbers = numbers
        self.most = most
        self.writes, self.recovers = _ns(plan.checkpoint_s), _ns(plan.detect_s) + _ns(plan.restart_s)
        self.now = self.done = 0
        self.useful = self.writing = self.lost = 0
        self.failures = self.restarts = 0
        self.due = self._draw_failure()

    def run(self) -> TrainingResult:
        """Train until the end and return the result."""
        while True:
            whole = self._time_until(self.pace.iterations * self.epochs)
            fails = self._next_failure(self._next_at_task())
            if fails is None or fails - self.now >= whole:
                self._account(self.pace.iterations * self.epochs, whole)
                self._advance(whole)
                return self._outcome("trained")
            self._fail(fails)
            if (ended := self._recover()) is not None:
                return self._outcome(ended)

    def _time_until(self, done: int) -> int:
        """Return the ns from now until `done` iterations are done and the checkpoints before the last of them written."""
        every = self.plan.every
        return self.pace.spent(done) - self.pace.spent(self.done) + self.writes * max(0, (done - 1) // every - self.done // every)

    def _next_at_task(self) -> int | None:
        """Return when the next failure at a task comes."""
        if not self.points:
            return None
        done, into = self.points[0]
        return self.now + max(0, self._time_until(done) + self.writes * (done > self.done and done % self.plan.every == 0) + into)

    def _next_failure(self, at_task: int | None = None) -> int | None:
        """Return when the next failure comes; None for never."""
        times = [time for time in (at_task, *self.times[:1]) if time is not None]
        times += [] if self.due is None else [self.now + -(-self.due // self.ranks)]
        return None if not times else max(self.now, min(times))

    def _fail(self, time: int) -> None:
        """Fail at `time` while training: go back to the last checkpoint."""
        every, passed = self.plan.every, time - self.now
        low, high = self.done // every, (self.pace.iterations * self.epochs - 1) // every
        while low < high:  # the last checkpoint that is whole by then
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._time_until(middle * every) + self.writes <= passed else (low, middle - 1)
        saved = max(self.done, low * every)
        self._account(saved, passed, self._time_until(saved) + self.writes if saved > self.done else 0)
        self._advance(passed)

    def _account(self, done: int, passed: int, counted: int | None = None) -> None:
        """Account for `passed` ns: iterations up to `done` and their checkpoints, `counted` ns in all, count; the remaining ns are lost."""
        useful = self.pace.spent(done) - self.pace.spent(self.done)
        counted = passed if counted is None else counted
        self.useful += useful
        self.writing += counted - useful
        self.lost += passed - counted
        self.done = done

    def _advance(self, ns: int) -> None:
        """Advance the clock by `ns`."""
        self.now += ns
        if self.due is not None:
            self.due -= self.ranks * ns

    def _recover(self) -> Ended | None:
        """Recover from a failure that is now. Return how training ended; None where it goes on."""
        while True:
            self._count_failure()
            if self.plan.policy == "stop":
                return "stopped"
            if self.plan.policy == "shrink":
                self.ranks, self.points = self.ranks - 1, []
                if not self.ranks:
                    return "too few ranks"
            if self.failures >= self.most:
                return "endless"
            fails = self._next_failure()
            if fails is None or fails - self.now >= self.recovers:
                break
            self.lost += fails - self.now
            self._advance(fails - self.now)
        self.lost += self.recovers
        self._advance(self.recovers)
        if self.plan.policy == "shrink" and not self._shrink():
            return "too few ranks"
        self.restarts += 1
        return None

    def _count_failure(self) -> None:
        """Count the failure that is now, and take it from those to come."""
        self.failures += 1
        if self.times and self.times[0] <= self.now:
            self.times.pop(0)
        elif self.due is not None and self.due <= 0:
            self.due = self._draw_failure()
        else:
            self.points.pop(0)

    def _draw_failure(self) -> int | None:
        """Draw the device nanoseconds until a device fails at random; None where none does."""
        return None if self.plan.mtbf_s is None else int(self.numbers.exponential(self.plan.mtbf_s * 1e9))

    def _shrink(self) -> bool:
        """Go on at the pace of one rank less, keeping the share of the epoch that was trained.

        Return False where there is no such schedule.
        """
        slower = self.on(self.ranks)
        if slower is not None:
            epoch, rest = divmod(self.done, self.pace.iterations)
            self.done = epoch * slower.iterations + rest * slower.iterations // self.pace.iterations
            self.pace = slower
        return slower is not None

    def _outcome(self, ended: Ended) -> TrainingResult:
        """Return the result of a training that ends now."""
        done = self.done / (self.pace.iterations * self.epochs)
        return TrainingResult(ended, self.now, self.useful, self.writing, self.lost, self.failures, self.restarts, self.ranks, done)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
