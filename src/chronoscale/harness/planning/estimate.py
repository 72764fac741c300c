"""Estimate of what a schedule will take before it is made, so that one that memory cannot hold is refused and not begun."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import psutil

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.strategies.strategy import MOST, Strategy
from chronoscale.strategies.workload import Workload

ROW_BYTES = 1500  # of a row while it is planned and replayed, measured
LONG = 2_000_000  # rows: some ten seconds on few ranks, minutes where every row is a rank's


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of how large one strategy's schedule of an epoch on `ranks` ranks will be, made before it is planned.

    rows: of the schedule, one an operation. streams: it can be planned and replayed some iterations at a time.
    """

    strategy: str
    ranks: int
    rows: int
    streams: bool = False

    @property
    def gigabytes(self) -> float:
        """Memory of this machine while the schedule is planned and replayed in one piece, GB."""
        return self.rows * ROW_BYTES / 1e9

    def check(self, have: float) -> None:
        """Raise UserError where the schedule does not fit into `have` GB of memory, and cannot be planned some iterations at a time."""
        if self.gigabytes > have and not self.streams:
            raise UserError(
                f"strategy '{self.strategy}' on {self.ranks:,} ranks: its schedule would have about {self.rows:,} rows and take "
                f"{self.gigabytes:,.1f} GB to plan and replay, {have:,.1f} GB are free; ask for fewer ranks, groups or layers"
            )

    def streamed(self, have: float) -> bool:
        """Say whether the schedule has to be planned and replayed some iterations at a time, without keeping a trace.

        That is so where it can be, and exceeds `have` GB or a strategy's own bound of rows.
        """
        return self.streams and (self.gigabytes > have or self.rows > MOST)


def available() -> float:
    """Return the GB of memory that are free on this machine now, for schedules to be planned in."""
    return float(psutil.virtual_memory().available) / 1e9


def estimates(planners: Mapping[str, Strategy], work: Workload, counts: Iterable[int]) -> list[Estimate]:
    """Estimate the schedules of an experiment's strategies before they are planned, each on every number of ranks, in this order.

    counts: numbers of ranks.
    """
    return [
        Estimate(name, ranks, planner.rows(work, ranks), planner.plans_incrementally)
        for name, planner in planners.items()
        for ranks in counts
    ]


def affordable(planners: Mapping[str, Strategy], work: Workload, counts: Iterable[int]) -> set[tuple[str, int]]:
    """Check that this machine's memory has room to plan every strategy on every number of ranks, before `chronoscale bench` or `simulate`
    does.

    Returns the (strategy, ranks) that are to be planned and replayed some iterations at a time. counts: numbers of ranks. Raises UserError
    for the first schedule that does not fit; warns of those that take minutes.
    """
    available_gb, estimated = available(), estimates(planners, work, counts)
    for estimate in estimated:
        estimate.check(available_gb)
    if long := [
        f"{estimate.strategy} on {estimate.ranks:,} ranks about {estimate.rows:,} rows" for estimate in estimated if estimate.rows > LONG
    ]:
        warnings.warn(f"large schedules take minutes to plan and replay: {', '.join(long)}", ChronoscaleWarning, stacklevel=2)
    return {(estimate.strategy, estimate.ranks) for estimate in estimated if estimate.streamed(available_gb)}
