"""Distribution of a stream over ranks, and so which events each has in each optimiser step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.partitioning.partitioner import BATCH, NEIGHBOURS
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.streams.event_numbers import EventNumbers


@dataclass(frozen=True, slots=True)
class StreamDistribution:
    """Settings of how an event stream is distributed over ranks.

    policy: the partitioner, a name of `PARTITIONERS`; '': none, and every rank has the whole stream (DistTGL). shared: share of the nodes,
    those of most events, that all parts have (MemShare §3.1, top-k). decay: of the attention that partitions weigh neighbours by, a unit of
    time; None: one over the stream's span.

    newest: of all ranks' updates of a shared node in one iteration, only the last counts, and all ranks learn of it; else each rank has its
    own. remote: probability that an event's negative is drawn from all destinations; else from those that the rank has (§4.3). batch,
    neighbours: events a rank in a batch, and neighbours of an event's end, for partitioners that count what is read.

    cached_rows: how many rows of other ranks, of nodes and of events each, a rank caches from batch to batch (`RemoteRowCache`); 0: none.
    """

    policy: str = "shared-nodes"
    shared: float = 0.0
    decay: float | None = None
    newest: bool = True
    remote: float = 1.0
    batch: int = field(default=BATCH, repr=False)  # keys of counts have both already
    neighbours: int = field(default=NEIGHBOURS, repr=False)
    cached_rows: int = 0

    def __str__(self) -> str:
        """Return the text in keys of counts on disk, which knows this class by its first name."""
        return repr(self).replace("StreamDistribution(", "Spread(")


@dataclass(frozen=True, slots=True, eq=False)
class RankAssignment:
    """Assignment of a distributed stream's events to ranks and iterations.

    With `parts` (a partition): iteration i has the events that `batches` gives it, ranks x size in the order of time, and each rank those
    of its part: all see what was there before the first of them. Without parts (DistTGL's memory parallelism): rank r has the r-th of equal
    spans of time, `batches.size` events of it an iteration, and sees what was there before its own first one; with `whole`, as in
    evaluation, the last rank has all events. Parts number events as `batches` does.
    """

    batches: BatchAssignment
    parts: EventPartition | None = None
    whole: bool = False

    @property
    def ranks(self) -> int:
        return self.batches.ranks

    def _span(self, rank: int) -> BatchAssignment:
        part, ranks = self.batches.part, self.ranks
        first, last = (len(part) * at // ranks for at in (rank, rank + 1))
        if self.whole:
            first, last = 0, len(part) * (rank == ranks - 1)
        return BatchAssignment(part[first:last], 1, self.batches.size, self.batches.limit, self.batches.every)

    @property
    def iterations(self) -> int:
        if self.parts is not None:
            return self.batches.iterations
        return max(self._span(rank).iterations for rank in range(self.ranks))

    def rank_events(self, iteration: int, rank: int) -> Int64:
        """Return the numbers of a rank's events in an iteration, ascending, int64 [B]."""
        if self.parts is None:
            numbers = self._span(rank).all_events(iteration)
            return np.arange(numbers.start, max(numbers.start, numbers.stop), dtype=np.int64)
        together = self.batches.all_events(iteration)
        return np.flatnonzero(self.part_of(together) == rank) + together.start

    def every_rank(self, iteration: int) -> EventNumbers:
        """Return the numbers of an iteration's events, of all ranks together."""
        if self.parts is not None:
            return self.batches.all_events(iteration)
        return np.concatenate([self.rank_events(iteration, rank) for rank in range(self.ranks)])

    def part_of(self, together: range) -> Int64:
        """Return the part that has each of the events `together`, int64 [B]. Only for an assignment with parts."""
        assert self.parts is not None
        return self.parts.event[together.start : together.stop].astype(np.int64)

    def before(self, iteration: int, rank: int) -> int:
        """Return the number of the event from which on a rank's batch in an iteration sees nothing: only earlier events are sampled as
        neighbours."""
        return (self.batches if self.parts is not None else self._span(rank)).all_events(iteration).start

    def size(self, iteration: int) -> int:
        """Return the number of events of an iteration, of all ranks together."""
        if self.parts is not None:
            return len(self.batches.all_events(iteration))
        return sum(len(self._span(rank).all_events(iteration)) for rank in range(self.ranks))
