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
    """Rows of one strategy's schedule on one number of ranks. streams: it need not be planned at once."""

    strategy: str
    ranks: int
    rows: int
    streams: bool = False

    @property
    def gigabytes(self) -> float:
        """Of host memory, while the schedule is planned and replayed."""
        return self.rows * ROW_BYTES / 1e9

    def check(self, have: float) -> None:
        """Raises UserError where `have` GB of memory do not hold it, and it has to be held."""
        if self.gigabytes > have and not self.streams:
            raise UserError(
                f"strategy '{self.strategy}' on {self.ranks:,} ranks: its schedule would have about {self.rows:,} rows and take "
                f"{self.gigabytes:,.1f} GB to plan and replay, {have:,.1f} GB are free; ask for fewer ranks, groups or layers"
            )

    def streamed(self, have: float) -> bool:
        """Say whether it is planned and replayed in parts, of which no trace is kept: `have` GB do not hold it, or it is too long to be
        planned at once."""
        return self.streams and (self.gigabytes > have or self.rows > MOST)


def available() -> float:
    """Return the GB of memory that are free now."""
    return float(psutil.virtual_memory().available) / 1e9


def estimates(planners: Mapping[str, Strategy], work: Workload, counts: Iterable[int]) -> list[Estimate]:
    """Estimate every strategy on every number of ranks, in this order."""
    return [
        Estimate(name, ranks, planner.rows(work, ranks), planner.plans_incrementally)
        for name, planner in planners.items()
        for ranks in counts
    ]


def affordable(planners: Mapping[str, Strategy], work: Workload, counts: Iterable[int]) -> set[tuple[str, int]]:
    """Return which strategies are streamed on which number of ranks. Raises UserError for the first schedule that memory, as it is free
    now, would not hold; warns of those that take minutes."""
    available_gb, estimated = available(), estimates(planners, work, counts)
    for estimate in estimated:
        estimate.check(available_gb)
    if long := [
        f"{estimate.strategy} on {estimate.ranks:,} ranks about {estimate.rows:,} rows" for estimate in estimated if estimate.rows > LONG
    ]:
        warnings.warn(f"large schedules take minutes to plan and replay: {', '.join(long)}", ChronoscaleWarning, stacklevel=2)
    return {(estimate.strategy, estimate.ranks) for estimate in estimated if estimate.streamed(available_gb)}
