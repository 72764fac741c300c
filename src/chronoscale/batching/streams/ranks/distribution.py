"""Distribution of a stream over ranks, and so which events each has in each optimiser step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.partitioning.partitioner import BATCH, NEIGHBOURS
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.streams.event_numbers import EventNumbers
from chronoscale.errors import UserError


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

    groups: of as many consecutive ranks each; a group has all parts, one a rank, and a span of time of its own.
    """

    policy: str = "shared-nodes"
    shared: float = 0.0
    decay: float | None = None
    newest: bool = True
    remote: float = 1.0
    batch: int = field(default=BATCH, repr=False)  # keys of counts have both already
    neighbours: int = field(default=NEIGHBOURS, repr=False)
    cached_rows: int = 0
    groups: int = field(default=1, repr=False)  # keys of counts name it where there are several

    def __str__(self) -> str:
        """Return the text in keys of counts on disk, which knows this class by its first name."""
        return repr(self).replace("StreamDistribution(", "Spread(")

    def members(self, ranks: int) -> int:
        """Return how many ranks a group has, which together have the whole stream; one rank alone is one group.

        Raises UserError for ranks that do not make as many groups of equal size.
        """
        if not self.policy or ranks == 1:
            return 1
        if ranks % self.groups:
            raise UserError(
                f"training.replicas: {ranks} ranks do not make {self.groups} groups; expected a multiple of {self.groups} ranks"
            )
        return ranks // self.groups


@dataclass(frozen=True, slots=True, eq=False)
class RankAssignment:
    """Assignment of a distributed stream's events to ranks and iterations.

    Ranks are `groups` of as many consecutive ones (`members`); without parts each rank is a group (DistTGL's memory parallelism). Group g
    has the g-th of equal spans of time: iteration i has the next members x `batches.size` events of it, and each rank those of its part;
    all see what was there before the first of them. With `whole`, as in evaluation, the last group has all events. Parts number events as
    `batches` does, and are as many as a group has ranks.
    """

    batches: BatchAssignment
    parts: EventPartition | None = None
    whole: bool = False
    groups: int = 1

    @property
    def ranks(self) -> int:
        return self.batches.ranks

    @property
    def members(self) -> int:
        """Number of ranks in a group."""
        return 1 if self.parts is None else self.ranks // self.groups

    def _span(self, group: int) -> BatchAssignment:
        part, groups = self.batches.part, self.ranks // self.members
        first, last = (len(part) * at // groups for at in (group, group + 1))
        if self.whole:
            first, last = 0, len(part) * (group == groups - 1)
        return BatchAssignment(part[first:last], self.members, self.batches.size, self.batches.limit, self.batches.every)

    @property
    def iterations(self) -> int:
        return max(self._span(group).iterations for group in range(self.ranks // self.members))

    def rank_events(self, iteration: int, rank: int) -> Int64:
        """Return the numbers of a rank's events in an iteration, ascending, int64 [B]."""
        numbers = self.group_events(iteration, rank)
        if self.parts is None:
            return np.arange(numbers.start, numbers.stop, dtype=np.int64)
        return np.flatnonzero(self.part_of(numbers) == rank % self.members) + numbers.start

    def group_events(self, iteration: int, rank: int) -> range:
        """Return the numbers of an iteration's events, of all ranks of a rank's group together; an empty range beyond its span."""
        numbers = self._span(rank // self.members).all_events(iteration)
        return range(numbers.start, max(numbers.start, numbers.stop))

    def every_rank(self, iteration: int) -> EventNumbers:
        """Return the numbers of an iteration's events, of all ranks together."""
        groups = [self.group_events(iteration, first) for first in range(0, self.ranks, self.members)]
        return groups[0] if len(groups) == 1 else np.concatenate([np.array(numbers, np.int64) for numbers in groups])

    def part_of(self, together: range) -> Int64:
        """Return the part that has each of the events `together`, int64 [B]; all are of one part without parts."""
        if self.parts is None:
            return np.zeros(len(together), np.int64)
        return self.parts.event[together.start : together.stop].astype(np.int64)

    def before(self, iteration: int, rank: int) -> int:
        """Return the number of the event from which on a rank's batch in an iteration sees nothing: only earlier events are sampled as
        neighbours."""
        return self.group_events(iteration, rank).start

    def size(self, iteration: int) -> int:
        """Return the number of events of an iteration, of all ranks together."""
        return sum(len(self.group_events(iteration, first)) for first in range(0, self.ranks, self.members))
