"""MemoryUpdates: what an iteration does to memory, written wherever the rows are, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import RankAssignment
from chronoscale.batching.streams.ranks.remote_reads import iteration_contributions
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.real_exec.streams.spread.contributions import ComputedContributions, ContributionPlan, compute, write_contributions
from chronoscale.real_exec.streams.spread.memory_part import MemoryPart
from chronoscale.real_exec.streams.spread.shared_nodes import SharedNodes, gather_rows
from chronoscale.real_exec.streams.spread.steps import SpreadSteps
from chronoscale.strategies.streams.spread.sharing import Sharing


@dataclass(slots=True, eq=False)
class PendingUpdate:
    """Update of node memory by one iteration, on one rank: contributions (what events write) are computed and not all written.

    plan: of the contributions; own: this rank's; received: those of other ranks to its rows; shared_rows: rows of shared nodes to
    synchronise.
    """

    plan: ContributionPlan
    own: ComputedContributions
    received: ComputedContributions | None = None
    shared_rows: Tensor | None = None


class MemoryUpdates:
    """The steps by which one rank's iterations update node memory that is spread over ranks."""

    def __init__(
        self, sharing: Sharing, spreading: DistributedStream, part: MemoryPart, common: SharedNodes, steps: SpreadSteps, delivers: int
    ) -> None:
        self._sharing = sharing
        self._spreading = spreading
        self._part = part
        self._common = common
        self._steps = steps
        self._delivers, self._model = delivers, steps.model
        self.shared_rows = sharing.shared and spreading.members > 1 and sharing.synchronised != "never"

    def plan(self, allotment: RankAssignment, place: tuple[int, int], source: IndexedStream) -> ContributionPlan:
        """Return what a rank's events of an iteration will write to node memory on any rank.

        place: the iteration, and the rank whose batches these are.

        allotment: which events each rank trains on.
        """
        iteration, rank = place
        planned = iteration_contributions(source, allotment, iteration, rank, self._spreading.spread, self._delivers)
        return ContributionPlan.of(
            planned, rank % self._spreading.members, allotment.rank_events(iteration, rank), source, self._model.shape
        )

    def begin(self, plan: ContributionPlan, ends: Sequence[tuple[Tensor, Tensor]]) -> PendingUpdate:
        """Compute what a batch's events write to node memory, and return it as an update that is still to be written.

        ends: memory [2, B, H] of the events' sources and destinations, and its time [2, B], in one part or more.
        """
        memory, times = (torch.cat(parts, 1) for parts in zip(*ends, strict=True))
        return PendingUpdate(plan, compute(plan, memory, times, self._model))

    def return_rows(self, update: PendingUpdate) -> None:
        """Send what this rank's events write to other ranks' nodes to these ranks, and receive what theirs write to its own.

        Every rank calls it.
        """
        update.received = self._steps.exchange_contributions(update.plan.contributions, update.own)

    def write(self, update: PendingUpdate) -> None:
        """Write an update to the nodes that this rank has; and its own part to shared nodes, where not all of their changes are
        synchronised.
        """
        planned = update.plan.contributions
        rank = update.plan.rank
        home = update.plan.home
        rows = update.own.part(torch.from_numpy(home == rank))
        if update.received is not None:
            before = int(np.count_nonzero((planned.home == rank) & (planned.holder < rank)))
            rows = ComputedContributions.concatenate(
                [update.received.part(slice(None, before)), rows, update.received.part(slice(before, None))]
            )
        write_contributions(self._part.state, self._part.places(planned.node[planned.home == rank]), rows, self._model.shape.neighbours)
        if self._sharing.shared and self._sharing.synchronised != "all":
            shared = home == SHARED
            nodes = planned.node[planned.of(rank)][shared]
            write_contributions(
                self._part.state, self._part.places(nodes), update.own.part(torch.from_numpy(shared)), self._model.shape.neighbours
            )
            if self.shared_rows:
                update.shared_rows = self._common.changed_rows(nodes[planned.last[planned.of(rank)][shared] >= 0])

    def gather_shared(self, update: PendingUpdate) -> None:
        """Gather what a group's ranks have changed of the nodes that they share (ALLGATHER, or, of several groups, ALLTOALL). Every rank
        calls it."""
        group = self._steps.group
        if self._sharing.synchronised == "significant":
            assert update.shared_rows is not None
            update.shared_rows = gather_rows(group, update.shared_rows, None)
            return
        packed_rows = update.own.part(torch.from_numpy(update.plan.home == SHARED)).pack()
        counts = update.plan.contributions.counts(group.members)[:, 0]
        self._common.changes, self._common.sent_changes = (
            self._common.changes + len(packed_rows),
            self._common.sent_changes + len(packed_rows),
        )
        update.shared_rows = gather_rows(group, packed_rows, counts.tolist())

    def write_shared(self, update: PendingUpdate) -> None:
        """Write the gathered changes of shared nodes to this rank's node memory."""
        assert update.shared_rows is not None
        if self._sharing.synchronised == "significant":
            return self._common.apply(update.shared_rows)
        planned = update.plan.contributions
        nodes = planned.node[planned.home == SHARED]
        write_contributions(
            self._part.state,
            self._part.places(nodes),
            ComputedContributions.unpack(update.shared_rows, self._model.shape),
            self._model.shape.neighbours,
        )

    def run_all(self, update: PendingUpdate) -> None:
        """Run all steps of an update of node memory, one after another, as evaluation does. Every rank calls it."""
        if self._spreading.members > 1:
            self.return_rows(update)
        self.write(update)
        if self.shared_rows:
            self.gather_shared(update)
            self.write_shared(update)
