"""Estimate: what a schedule will take before it is made, so that one that memory cannot hold is refused and not begun."""

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
    """Of one strategy on one number of ranks: rows of its schedule; streams: it need not be planned at once."""

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
        """Whether it is planned and replayed in parts, of which no trace is kept: `have` GB do not hold it, or it is too long to be planned
        at once."""
        return self.streams and (self.gigabytes > have or self.rows > MOST)


def available() -> float:
    """GB of memory, as it is free now."""
    return float(psutil.virtual_memory().available) / 1e9


def estimates(planners: Mapping[str, Strategy], work: Workload, counts: Iterable[int]) -> list[Estimate]:
    """Of every strategy on every number of ranks, in this order."""
    return [
        Estimate(name, ranks, planner.rows(work, ranks), planner.plans_incrementally)
        for name, planner in planners.items()
        for ranks in counts
    ]


def affordable(planners: Mapping[str, Strategy], work: Workload, counts: Iterable[int]) -> set[tuple[str, int]]:
    """Which strategies are streamed on which number of ranks. Raises UserError for the first schedule that memory, as it is free now, would
    not hold; warns of those that take minutes."""
    have, found = available(), estimates(planners, work, counts)
    for one in found:
        one.check(have)
    if long := [f"{one.strategy} on {one.ranks:,} ranks about {one.rows:,} rows" for one in found if one.rows > LONG]:
        warnings.warn(f"large schedules take minutes to plan and replay: {', '.join(long)}", ChronoscaleWarning, stacklevel=2)
    return {(one.strategy, one.ranks) for one in found if one.streamed(have)}
