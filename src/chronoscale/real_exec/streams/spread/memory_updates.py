"""MemoryUpdates: what an iteration does to memory, written wherever the rows are, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.ranks.distributed_stream import Spreading
from chronoscale.batching.streams.ranks.placement import Allotment
from chronoscale.batching.streams.ranks.remote_reads import contributions
from chronoscale.batching.streams.sampling.source import Source
from chronoscale.real_exec.streams.spread.contributions import ComputedContributions, ContributionPlan, compute, write_contributions
from chronoscale.real_exec.streams.spread.memory_part import MemoryPart
from chronoscale.real_exec.streams.spread.shared_nodes import SharedNodes, gather_rows
from chronoscale.real_exec.streams.spread.steps import SpreadSteps
from chronoscale.strategies.streams.sharing import Sharing


@dataclass(slots=True, eq=False)
class PendingUpdate:
    """An iteration whose contributions are computed and not all written.

    own: this rank's; come: those of other ranks to its rows; words: rows of shared nodes that are synchronised.
    """

    prospect: ContributionPlan
    own: ComputedContributions
    come: ComputedContributions | None = None
    words: Tensor | None = None


class MemoryUpdates:
    """The steps by which one rank's iterations update memory."""

    def __init__(
        self, sharing: Sharing, spreading: Spreading, held: MemoryPart, common: SharedNodes, steps: SpreadSteps, delivers: int
    ) -> None:
        self._sharing, self._spreading, self._held, self._common, self._steps = sharing, spreading, held, common, steps
        self._delivers, self._model = delivers, steps.model
        self.words = sharing.shared and spreading.ranks > 1 and sharing.synchronised != "never"

    def plan(self, allotment: Allotment, place: tuple[int, int], source: Source) -> ContributionPlan:
        """Return what a rank will contribute. place: the iteration, and the rank whose batches these are."""
        iteration, rank = place
        found = contributions(source, allotment, iteration, rank, self._spreading.spread, self._delivers)
        return ContributionPlan.of(found, rank, allotment.own(iteration, rank), source, self._model.shape)

    def begin(self, one: ContributionPlan, ends: Sequence[tuple[Tensor, Tensor]]) -> PendingUpdate:
        """Compute contributions from memory [2, B, H] and its time [2, B] at the ends of a batch's events, in one part or more."""
        memory, heard = (torch.cat(parts, 1) for parts in zip(*ends, strict=True))
        return PendingUpdate(one, compute(one, memory, heard, self._model))

    def return_rows(self, one: PendingUpdate) -> None:
        """Send contributions to others' rows to the ranks that have these, and receive theirs."""
        one.come = self._steps.returned(one.prospect.found, one.own)

    def write(self, one: PendingUpdate) -> None:
        """Write contributions to rows that the rank has; and its own to shared nodes, where not all of their changes are synchronised."""
        found, rank, home = one.prospect.found, one.prospect.rank, one.prospect.home
        rows = one.own.part(torch.from_numpy(home == rank))
        if one.come is not None:
            before = int(np.count_nonzero((found.home == rank) & (found.holder < rank)))
            rows = ComputedContributions.joined([one.come.part(slice(None, before)), rows, one.come.part(slice(before, None))])
        write_contributions(self._held.state, self._held.places(found.node[found.home == rank]), rows, self._model.shape.neighbours)
        if self._sharing.shared and self._sharing.synchronised != "all":
            shared = home == SHARED
            nodes = found.node[found.of(rank)][shared]
            write_contributions(
                self._held.state, self._held.places(nodes), one.own.part(torch.from_numpy(shared)), self._model.shape.neighbours
            )
            if self.words:
                one.words = self._common.changed_rows(nodes[found.last[found.of(rank)][shared] >= 0])

    def gather_shared(self, one: PendingUpdate) -> None:
        """Gather all ranks' rows of shared nodes."""
        exchange, device = self._steps.context.collective, self._steps.context.device
        if self._sharing.synchronised == "significant":
            assert one.words is not None
            one.words = gather_rows(exchange, one.words, None, device)
            return
        words = one.own.part(torch.from_numpy(one.prospect.home == SHARED)).packed()
        counts = one.prospect.found.counts(exchange.ranks)[:, 0]
        self._common.changed, self._common.spoken = self._common.changed + len(words), self._common.spoken + len(words)
        one.words = gather_rows(exchange, words, counts.tolist(), device)

    def write_shared(self, one: PendingUpdate) -> None:
        """Write the gathered rows of shared nodes."""
        assert one.words is not None
        if self._sharing.synchronised == "significant":
            return self._common.apply(one.words)
        found = one.prospect.found
        nodes = found.node[found.home == SHARED]
        write_contributions(
            self._held.state,
            self._held.places(nodes),
            ComputedContributions.unpacked(one.words, self._model.shape),
            self._model.shape.neighbours,
        )

    def run_all(self, one: PendingUpdate) -> None:
        """Run all steps, one after another."""
        if not self._sharing.replicated and self._spreading.ranks > 1:
            self.return_rows(one)
        self.write(one)
        if self.words:
            self.gather_shared(one)
            self.write_shared(one)
