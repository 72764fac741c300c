"""Draws: a schedule replayed many times, each time with other durations of those that its uncertainty allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chronoscale.simulator.engine import place, times
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.sharing.uncontended import Alone, firsts
from chronoscale.simulator.uncertainty.spec import Uncertainty
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costing.samples import rank_sway, row_spreads
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.schedule import Ints, Lane, Schedule
from chronoscale.strategies.trace import Trace

_JITTER, _SWAY, _STRAGGLERS = range(3)  # what a draw's generators are for: one does not move another's numbers


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Draw k of a seed is the same however many there are. What no draw changes is worked out once: also the shares that rows take of what
    they have in common, which are those of rows that take as long as usual.

    jitter: of each row, float64 [n], or of all. joined, first: rows of collectives, and the first row of each one's (int64 both): a
    collective has one duration. own, computes: rows
    that are none, and those that a device computes, bool [n]; slow: float64 [n], what the class of a row's rank makes of its time.
    """

    schedule: Schedule
    cluster: Cluster
    uncertainty: Uncertainty
    seed: int
    alone: Alone
    place: str
    joined: Ints
    first: Ints
    jitter: Floats | float
    sway: float
    own: NDArray[np.bool_]
    computes: NDArray[np.bool_]
    slow: Floats | None

    @classmethod
    def of(
        cls, schedule: Schedule, cluster: Cluster, costs: CostModel, uncertainty: Uncertainty, seed: int, alone: Alone | None = None
    ) -> Draws:
        """alone: of the same schedule, cluster and costs, where it is at hand. Raises UserError as `replay`, and where costs that were not
        fitted are to say how much rows vary."""
        jitter, sway = uncertainty.jitter, uncertainty.sway
        spread = row_spreads(costs, schedule) if jitter == "fitted" else jitter, rank_sway(costs) if sway == "fitted" else sway
        own = schedule.collective < 0
        computes = own & np.isin(schedule.lane, [Lane.COMPUTE, Lane.COMPUTE2])
        speeds = uncertainty.speeds(schedule.ranks)
        slow = np.where(computes, 1 / speeds[schedule.rank], 1.0) if (speeds != 1).any() else None
        alone = alone or Alone.of(schedule, cluster, costs)
        return cls(schedule, cluster, uncertainty, seed, alone, place(cluster, costs), *firsts(schedule), *spread, own, computes, slow)

    def factors(self, draw: int) -> tuple[Floats, Floats]:
        """How many times as long rows take, and the host for their launches; float64 [n] both."""
        common = np.ones(len(self.schedule))
        if self.uncertainty.jitter:
            common *= _around(self._numbers(draw, _JITTER), self.jitter, len(common))
            common[self.joined] = common[self.first]
        if self.sway:
            iteration, turns = np.maximum(self.schedule.iteration, 0), max(self.schedule.iterations, 1)
            found = _around(self._numbers(draw, _SWAY), self.sway, self.schedule.ranks * turns)
            common *= np.where(self.own, found[self.schedule.rank * turns + iteration], 1.0)
        rows = common if self.slow is None else common * self.slow
        if (stragglers := self.uncertainty.stragglers) is None:
            return rows, common
        slow = np.where(self._straggles(draw), stragglers.factor, 1.0)[self.schedule.rank]
        if stragglers.of == "gpu":
            return rows * np.where(self.computes, slow, 1.0), common
        return rows * np.where(self.own, slow, 1.0), common * slow

    def times(self, draw: int) -> tuple[Ints, Ints]:
        """Start and end of rows, ns, int64 [n] each. Raises UserError when ranks wait for one another in a cycle."""
        ns, launches = self._lengths(draw)
        return times(self.schedule, self.cluster.device, ns, launches, self.alone.shares)

    def launches(self, draw: int) -> Launches | None:
        """Of a draw's rows; None where nothing is launched."""
        return self._lengths(draw)[1]

    def _lengths(self, draw: int) -> tuple[Ints, Launches | None]:
        rows, launching = self.factors(draw)
        ns = np.rint(self.alone.ns * rows).astype(np.int64)
        return ns, self.alone.launches(self.schedule, ns, launching)

    def span(self, draw: int) -> int:
        """The epoch, ns, as `Trace.span_ns`. Raises UserError as `times`."""
        begin, end = self.times(draw)
        return int(end.max() - begin.min()) if len(end) else 0

    def spans(self, draws: int) -> Ints:
        """Of the first draws, int64 [draws]. Raises UserError as `times`."""
        return np.array([self.span(draw) for draw in range(draws)], np.int64)

    def trace(self, draw: int) -> Trace:
        """Raises UserError as `times`."""
        return Trace.of(self.schedule, *self.times(draw), self.alone.source, self.place)

    def _numbers(self, draw: int, purpose: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(draw, purpose)))

    def _straggles(self, draw: int) -> NDArray[np.bool_]:
        """Which ranks do, bool [ranks]."""
        found, ranks = self.uncertainty.stragglers, np.arange(self.schedule.ranks)
        assert found is not None
        unit = ranks if found.of == "gpu" else ranks // self.cluster.gpus_per_node
        units = int(unit[-1]) + 1
        return np.isin(unit, self._numbers(draw, _STRAGGLERS).choice(units, min(found.count, units), replace=False))


def spans(schedule: Schedule, cluster: Cluster, costs: CostModel, uncertainty: Uncertainty, draws: int, seed: int) -> Ints:
    """The epoch in each draw, ns, int64 [draws]. Raises UserError as `replay`."""
    return Draws.of(schedule, cluster, costs, uncertainty, seed).spans(draws)


def middle(spans: Ints) -> int:
    """The draw that stands for all: of the median, of an even number the lower of the two."""
    return int(np.argsort(spans, kind="stable")[(len(spans) - 1) // 2])


def _around(numbers: np.random.Generator, spread: Floats | float, count: int) -> Floats:
    """Log-normal numbers of mean 1 and standard deviation `spread`, one or float64 [count]; float64 [count]."""
    variance = np.log1p(np.square(spread))
    return np.asarray(np.exp(np.sqrt(variance) * numbers.standard_normal(count) - variance / 2), np.float64)
