"""Assignment of events to ranks and optimiser steps, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Int64
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class BatchAssignment:
    """Assignment of an event stream's events to ranks (training processes) in chronological batches of `size` events: iteration i has the
    next ranks x size events of `part`, rank r the r-th `size` of them.

    All events of an iteration see the state before its first event, so that P ranks are one rank with batches P times as large. limit:
    iterations at most, the first ones; 0: all. every: for probes, only one iteration of so many, spread evenly. Raises UserError for counts
    below 1.
    """

    part: range
    ranks: int
    size: int
    limit: int = 0
    every: int = 1

    def __post_init__(self) -> None:
        if min(self.ranks, self.size, self.every) < 1 or self.limit < 0:
            raise UserError(f"batches need ranks, events and a stride of at least 1, got {self.ranks}, {self.size} and {self.every}")

    def __str__(self) -> str:
        """Return the text in keys of counts on disk, which knows this class by its first name."""
        return repr(self).replace("BatchAssignment(", "Deal(")

    @property
    def iterations(self) -> int:
        """Number of iterations (optimiser steps) in an epoch, the same on every rank."""
        all_of = -(-len(self.part) // (self.ranks * self.size))
        return -(-(min(all_of, self.limit) if self.limit else all_of) // self.every)

    def all_events(self, iteration: int) -> range:
        """Return the numbers of an iteration's events, of all ranks together."""
        first = self.part.start + iteration * self.every * self.ranks * self.size
        return range(first, min(first + self.ranks * self.size, self.part.stop))

    def rank_events(self, iteration: int, rank: int) -> range:
        """Return the numbers of one rank's events in an iteration, its batch; an empty range where there are too few events."""
        whole = self.all_events(iteration)
        first = min(whole.start + rank * self.size, whole.stop)
        return range(first, min(first + self.size, whole.stop))

    @property
    def batches(self) -> int:
        """Number of batches of an epoch that have events, of all ranks; every iteration but the last has some for each."""
        last = self.iterations - 1
        return max(last, 0) * self.ranks + (-(-len(self.all_events(last)) // self.size) if last >= 0 else 0)

    def sizes(self) -> Int64:
        """Return the number of events in each iteration's batch of each rank, int64 [iterations, ranks]."""
        counts = [[len(self.rank_events(i, rank)) for rank in range(self.ranks)] for i in range(self.iterations)]
        return np.array(counts, np.int64).reshape(self.iterations, self.ranks)
