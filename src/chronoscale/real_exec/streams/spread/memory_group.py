"""MemoryGroup: the ranks that together have one copy of node memory, and what they exchange among themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.transfers import to_device


@dataclass(frozen=True, slots=True, eq=False)
class MemoryGroup:
    """Group of consecutive ranks that together have one copy of node memory, each a part (MemShare), on one of them.

    members: ranks of a group: all of the job, one (DistTGL), or some that divide them. Every rank of the job takes part in every exchange,
    and sends nothing to those of other groups, so that all meet in one order; groups wait for each other there.
    """

    context: Context
    members: int

    @property
    def part(self) -> int:
        """Return this rank's number in its group, the part of memory that it has."""
        return self.context.rank % self.members

    def all_to_all(self, values: Tensor, out: Sequence[int], into: Sequence[int]) -> Tensor:
        """Send rows [sum(out), W], out[q] to member q; return those received on the device, into[q] from member q. Every rank calls it."""
        values = to_device(values, self.context.device)
        received = values.new_empty(sum(into), values.shape[1])
        self.context.exchange.all_to_all(received, values, self._of_ranks(into), self._of_ranks(out))
        return received

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Gather rows [counts[q], W] of every member q on all members: [sum(counts), W], on the device. Every rank calls it."""
        if self.members < self.context.ranks:  # other groups may have rows where this one has none
            return self.all_to_all(torch.cat([rows] * self.members), [len(rows)] * self.members, counts)
        rows = to_device(rows, self.context.device)
        return self.context.collective.all_gather(rows, counts) if max(counts) else rows

    def _of_ranks(self, counts: Sequence[int]) -> list[int]:
        """Return counts by rank of the job, from those by member."""
        first = self.context.rank - self.part
        return [0] * first + list(counts) + [0] * (self.context.ranks - first - self.members)
