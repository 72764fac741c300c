"""Draws: a schedule replayed many times, each time with other durations, as its uncertainty allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chronoscale.simulator.engine import device_label, replay_times
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.sharing.uncontended import UncontendedRows, first_rows
from chronoscale.simulator.uncertainty.spec import Uncertainty
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costing.samples import rank_sway, row_spreads
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.schedule import Ints, Lane, Schedule
from chronoscale.strategies.trace import Trace

_JITTER, _SWAY, _STRAGGLERS = range(3)  # what a draw's generators are for: one does not move another's numbers


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Simulations of one schedule with random durations, as its uncertainty allows. Draw k of a seed is the same however many there are.

    What no draw changes is worked out once, also the shares that rows (tasks) take of resources, which are those of rows that take as long
    as usual.

    place: text by which traces name the device. jitter: of each row, float64 [n], or of all. joined, first: rows of collectives, and the
    first row of each one's (int64 both): a collective has one duration. own: rows that are no collective; computes: those of them that a
    device computes, bool [n]. slow: how many times as long a row takes on its rank's class of devices, float64 [n].
    """

    schedule: Schedule
    cluster: Cluster
    uncertainty: Uncertainty
    seed: int
    uncontended: UncontendedRows
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
        cls,
        schedule: Schedule,
        cluster: Cluster,
        costs: CostModel,
        uncertainty: Uncertainty,
        seed: int,
        uncontended: UncontendedRows | None = None,
    ) -> Draws:
        """Prepare random simulations of a schedule.

        uncontended: what its tasks take alone, where that is known already. Raises UserError when the cluster has too few devices, when
        `costs` does not know a row, and where the jitter of rows is needed from costs that were not fitted.
        """
        jitter = row_spreads(costs, schedule) if uncertainty.jitter == "fitted" else uncertainty.jitter
        sway = rank_sway(costs) if uncertainty.sway == "fitted" else uncertainty.sway
        own = schedule.collective < 0
        computes = own & np.isin(schedule.lane, [Lane.COMPUTE, Lane.COMPUTE2])
        speeds = uncertainty.speeds(schedule.ranks)
        slow = np.where(computes, 1 / speeds[schedule.rank], 1.0) if (speeds != 1).any() else None
        uncontended = uncontended or UncontendedRows.of(schedule, cluster, costs)
        return cls(
            schedule,
            cluster,
            uncertainty,
            seed,
            uncontended,
            device_label(cluster, costs),
            *first_rows(schedule),
            jitter,
            sway,
            own,
            computes,
            slow,
        )

    def factors(self, draw: int) -> tuple[Floats, Floats]:
        """Return how many times as long tasks take in one draw, and the host for launching their kernels; float64 [n] both."""
        common = np.ones(len(self.schedule))
        if self.uncertainty.jitter:
            common *= _draw_around_one(self._generator(draw, _JITTER), self.jitter, len(common))
            common[self.joined] = common[self.first]
        if self.sway:
            iteration, turns = np.maximum(self.schedule.iteration, 0), max(self.schedule.iterations, 1)
            sways = _draw_around_one(self._generator(draw, _SWAY), self.sway, self.schedule.ranks * turns)
            common *= np.where(self.own, sways[self.schedule.rank * turns + iteration], 1.0)
        rows = common if self.slow is None else common * self.slow
        if (stragglers := self.uncertainty.stragglers) is None:
            return rows, common
        slow = np.where(self._straggles(draw), stragglers.factor, 1.0)[self.schedule.rank]
        if stragglers.of == "gpu":
            return rows * np.where(self.computes, slow, 1.0), common
        return rows * np.where(self.own, slow, 1.0), common * slow

    def times(self, draw: int) -> tuple[Ints, Ints]:
        """Simulate one draw and return start and end of its tasks (ns), int64 [n] each.

        Raises UserError when ranks wait for one another in a cycle.
        """
        ns, launches = self._durations(draw)
        return replay_times(self.schedule, self.cluster.device, ns, launches, self.uncontended.shares)

    def launches(self, draw: int) -> Launches | None:
        """Return the kernel launches of a draw's tasks; None where nothing is launched."""
        return self._durations(draw)[1]

    def _durations(self, draw: int) -> tuple[Ints, Launches | None]:
        """Return the durations of rows in a draw (ns), int64 [n], and their launches."""
        rows, launching = self.factors(draw)
        ns = np.rint(self.uncontended.ns * rows).astype(np.int64)
        return ns, self.uncontended.launches(self.schedule, ns, launching)

    def span(self, draw: int) -> int:
        """Simulate one draw and return the length of the epoch (ns). Raises UserError when ranks wait for one another in a cycle."""
        begin, end = self.times(draw)
        return int(end.max() - begin.min()) if len(end) else 0

    def spans(self, draws: int) -> Ints:
        """Simulate the first `draws` draws and return the length of the epoch (ns) in each, int64 [draws].

        Raises UserError when ranks wait for one another in a cycle.
        """
        return np.array([self.span(draw) for draw in range(draws)], np.int64)

    def trace(self, draw: int) -> Trace:
        """Simulate one draw and return its trace. Raises UserError when ranks wait for one another in a cycle."""
        return Trace.of(self.schedule, *self.times(draw), self.uncontended.source, self.place)

    def _generator(self, draw: int, purpose: int) -> np.random.Generator:
        """Return the random numbers of a draw for one purpose."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(draw, purpose)))

    def _straggles(self, draw: int) -> NDArray[np.bool_]:
        """Return which ranks straggle in a draw, bool [ranks]."""
        stragglers, ranks = self.uncertainty.stragglers, np.arange(self.schedule.ranks)
        assert stragglers is not None
        unit = ranks if stragglers.of == "gpu" else ranks // self.cluster.gpus_per_node
        units = int(unit[-1]) + 1
        return np.isin(unit, self._generator(draw, _STRAGGLERS).choice(units, min(stragglers.count, units), replace=False))


def epoch_spans(schedule: Schedule, cluster: Cluster, costs: CostModel, uncertainty: Uncertainty, draws: int, seed: int) -> Ints:
    """Simulate a schedule `draws` times with random durations and return the length of the epoch (ns) in each, int64 [draws].

    Raises UserError when the cluster has too few devices, when `costs` does not know a row, and when ranks wait for one another in a cycle.
    """
    return Draws.of(schedule, cluster, costs, uncertainty, seed).spans(draws)


def middle_draw(spans: Ints) -> int:
    """Return the number of the draw that stands for all: the one of the median epoch; of an even number, the shorter of the two.

    spans: length of the epoch in each draw.
    """
    return int(np.argsort(spans, kind="stable")[(len(spans) - 1) // 2])


def _draw_around_one(numbers: np.random.Generator, spread: Floats | float, count: int) -> Floats:
    """Draw `count` log-normal numbers of mean 1, float64. spread: their standard deviation, one or float64 [count]."""
    variance = np.log1p(np.square(spread))
    return np.asarray(np.exp(np.sqrt(variance) * numbers.standard_normal(count) - variance / 2), np.float64)
