"""Stretch: consecutive iterations of an epoch, planned without the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.strategies.schedule import Op, Schedule

ROWS = 1_000_000  # of a stretch, about: some 400 MB while it is planned and replayed


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Piece of an epoch's schedule: consecutive iterations, planned without the others, so that the simulator need not hold a long epoch.

    Its iteration 0 is no work: the optimiser steps of the iteration before, a row a rank in their order, which launch nothing and end when
    what came before is over. Its iteration i > 0 is the epoch's `first` + i - 1, and its rows behind those steps are the epoch's from `row`
    on. Iterations of a rank do not overlap: none of its rows starts before its step of the iteration before has ended, and every rank has a
    step in every iteration. Stretches of one shape have one structure, the same arrays (`recast`).
    """

    schedule: Schedule
    first: int
    row: int

    def __post_init__(self) -> None:
        """Raise ValueError where the first rows are no such steps."""
        schedule, ranks = self.schedule, self.schedule.ranks
        steps = np.array_equal(schedule.rank[:ranks], np.arange(ranks)) and (schedule.op[:ranks] == Op.OPTIMIZE).all()
        if not steps or schedule.kernels[:ranks].any() or not np.array_equal(np.flatnonzero(schedule.iteration == 0), np.arange(ranks)):
            raise ValueError(f"stretch of '{schedule.name}': its first {ranks} rows are not the steps of the iteration before, one a rank")
