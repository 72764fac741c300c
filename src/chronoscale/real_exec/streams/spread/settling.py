"""Settling: what an iteration does to memory, brought to where it belongs, step by step."""

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
from chronoscale.real_exec.streams.spread.common import Common, gathered
from chronoscale.real_exec.streams.spread.contributing import Computed, Prospect, computed, settle
from chronoscale.real_exec.streams.spread.held import Held
from chronoscale.real_exec.streams.spread.steps import SpreadSteps
from chronoscale.strategies.streams.spread.sharing import Sharing


@dataclass(slots=True, eq=False)
class Unsettled:
    """An iteration whose contributions are computed: this rank's `own`, `come`: those of others to its rows; words: what is said of shared
    nodes."""

    prospect: Prospect
    own: Computed
    come: Computed | None = None
    words: Tensor | None = None


class Settling:
    """Of one rank."""

    def __init__(
        self, sharing: Sharing, spreading: DistributedStream, held: Held, common: Common, steps: SpreadSteps, delivers: int
    ) -> None:
        self._sharing, self._spreading, self._held, self._common, self._steps = sharing, spreading, held, common, steps
        self._delivers, self._model = delivers, steps.model
        self.words = sharing.shared and spreading.ranks > 1 and sharing.synchronised != "never"

    def foresee(self, allotment: RankAssignment, place: tuple[int, int], source: IndexedStream) -> Prospect:
        """What a rank is about to contribute. place: the iteration, and the rank whose batches these are."""
        iteration, rank = place
        found = iteration_contributions(source, allotment, iteration, rank, self._spreading.spread, self._delivers)
        return Prospect.of(found, rank, allotment.rank_events(iteration, rank), source, self._model.shape)

    def begin(self, one: Prospect, ends: Sequence[tuple[Tensor, Tensor]]) -> Unsettled:
        """What follows from memory [2, B, H], and its time [2, B], at the ends of a batch's events, in one part or more."""
        memory, heard = (torch.cat(parts, 1) for parts in zip(*ends, strict=True))
        return Unsettled(one, computed(one, memory, heard, self._model))

    def bring(self, one: Unsettled) -> None:
        """Contributions to others' rows, to whoever has these."""
        one.come = self._steps.returned(one.prospect.found, one.own)

    def write(self, one: Unsettled) -> None:
        """Contributions to rows that the rank has; and, where not all changes of shared nodes are told, its own to these."""
        found, rank, home = one.prospect.found, one.prospect.rank, one.prospect.home
        rows = one.own.part(torch.from_numpy(home == rank))
        if one.come is not None:
            before = int(np.count_nonzero((found.home == rank) & (found.holder < rank)))
            rows = Computed.joined([one.come.part(slice(None, before)), rows, one.come.part(slice(before, None))])
        settle(self._held.state, self._held.places(found.node[found.home == rank]), rows, self._model.shape.neighbours)
        if self._sharing.shared and self._sharing.synchronised != "all":
            shared = home == SHARED
            nodes = found.node[found.of(rank)][shared]
            settle(self._held.state, self._held.places(nodes), one.own.part(torch.from_numpy(shared)), self._model.shape.neighbours)
            if self.words:
                one.words = self._common.words(nodes[found.last[found.of(rank)][shared] >= 0])

    def speak(self, one: Unsettled) -> None:
        """Tell all ranks of shared nodes, and hear what they tell."""
        exchange, device = self._steps.context.collective, self._steps.context.device
        if self._sharing.synchronised == "significant":
            assert one.words is not None
            one.words = gathered(exchange, one.words, None, device)
            return
        words = one.own.part(torch.from_numpy(one.prospect.home == SHARED)).packed()
        counts = one.prospect.found.counts(exchange.ranks)[:, 0]
        self._common.changed, self._common.spoken = self._common.changed + len(words), self._common.spoken + len(words)
        one.words = gathered(exchange, words, counts.tolist(), device)

    def hear(self, one: Unsettled) -> None:
        """Write what was told."""
        assert one.words is not None
        if self._sharing.synchronised == "significant":
            return self._common.hear(one.words)
        found = one.prospect.found
        nodes = found.node[found.home == SHARED]
        settle(self._held.state, self._held.places(nodes), Computed.unpacked(one.words, self._model.shape), self._model.shape.neighbours)

    def at_once(self, one: Unsettled) -> None:
        """All of it, in turn."""
        if not self._sharing.replicated and self._spreading.ranks > 1:
            self.bring(one)
        self.write(one)
        if self.words:
            self.speak(one)
            self.hear(one)
