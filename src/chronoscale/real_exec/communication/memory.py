"""Communication of virtual ranks: collectives and messages in the memory of the one process that executes them all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from chronoscale.real_exec.communication.collective import Numbers
from chronoscale.real_exec.communication.meeting import Meeting


class MemoryCollective:
    """Collective of a virtual rank. Sums are taken in the order of ranks."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.ranks, self.rank, self._meeting = meeting.ranks, rank, meeting

    def all_reduce(self, values: Tensor) -> None:
        def add(tensors: Sequence[Tensor]) -> None:
            total = _sum(tensors)
            for tensor in tensors:
                tensor.copy_(total)

        self._meeting.meet(self.rank, f"an all-reduce of {list(values.shape)}", values, add)

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        gathered: Tensor = self._meeting.meet(self.rank, f"an all-gather of {list(counts)} rows", rows, lambda own: torch.cat(tuple(own)))
        return gathered.clone()

    def barrier(self) -> None:
        self._meeting.meet(self.rank, "a barrier", None, lambda _: None)

    def sum_array(self, values: Numbers) -> Numbers:
        total: Numbers = self._meeting.meet(
            self.rank, f"a sum of {list(values.shape)} numbers", values, lambda arrays: sum(arrays[1:], arrays[0])
        )
        return total.copy()


class MemoryExchange:
    """Exchange of a virtual rank. What it sends is copied at once, so that a send waits for nobody."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._rank, self._meeting = rank, meeting

    def send(self, values: Tensor, rank: int) -> None:
        self._meeting.send(self._rank, rank, values.detach().clone())

    def receive(self, into: Tensor, rank: int) -> None:
        values = self._meeting.receive(self._rank, rank)
        if values.shape != into.shape or values.dtype != into.dtype:
            raise RuntimeError(
                f"rank {rank} sent {values.dtype} {list(values.shape)}, rank {self._rank} expects {into.dtype} {list(into.shape)}"
            )
        with torch.no_grad():
            into.copy_(values)

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        own = (into.split(list(into_rows)), values.split(list(rows)))
        self._meeting.meet(self._rank, "an all-to-all", own, _hand_over)


def _sum(tensors: Sequence[Tensor]) -> Tensor:
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total += tensor
    return total


def _hand_over(own: Sequence[tuple[Sequence[Tensor], Sequence[Tensor]]]) -> None:
    """Copy the rows of every rank for every other to where that one expects them. own: of each rank, where rows of each arrive, and its own
    rows for each. Raises RuntimeError where a rank sends another number of rows than is expected.
    """
    for receiver, (arrives, _) in enumerate(own):
        for sender, into in enumerate(arrives):
            rows = own[sender][1][receiver]
            if rows.shape != into.shape:
                raise RuntimeError(f"rank {sender} sends {list(rows.shape)} rows to rank {receiver}, which expects {list(into.shape)}")
            if into.numel():
                into.copy_(rows)
