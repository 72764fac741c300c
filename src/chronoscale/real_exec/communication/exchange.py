"""Exchange: rows that go from one rank to another: send, receive, all-to-all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor


class Exchange(Protocol):
    """Point-to-point and all-to-all communication between the ranks of a job.

    Tensors are contiguous, on the group's device, and of one dtype on all ranks.
    """

    def send(self, values: Tensor, rank: int) -> None:
        """Send `values` to one rank of the job, which receives a tensor of the same shape."""
        ...

    def receive(self, into: Tensor, rank: int) -> None:
        """Receive into the tensor `into` what one rank of the job sends."""
        ...

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        """Exchange rows with all ranks of the job; every rank calls it.

        values [sum(rows), W]: the first `rows[0]` go to rank 0, the next `rows[1]` to rank 1, and so on. into [sum(into_rows), W]: receives
        `into_rows[q]` rows of each rank q, in the order of ranks. W and counts may be 0.
        """
        ...


class TorchExchange:
    """Exchange by torch.distributed's default process group: gloo on CPUs, nccl on GPUs."""

    def send(self, values: Tensor, rank: int) -> None:
        dist.send(values, rank)

    def receive(self, into: Tensor, rank: int) -> None:
        dist.recv(into, rank)

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        dist.all_to_all_single(into, values, list(into_rows), list(rows))


class SingleRankExchange:
    """Exchange of a job with one rank, whose schedules send nothing to others."""

    def send(self, values: Tensor, rank: int) -> None:
        raise RuntimeError(f"one rank alone cannot send to rank {rank}")

    def receive(self, into: Tensor, rank: int) -> None:
        raise RuntimeError(f"one rank alone cannot receive from rank {rank}")

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        into.copy_(values)


def all_gather(exchange: Exchange, values: Tensor, counts: Sequence[int]) -> Tensor:
    """Gather rows [counts[q], W] of every rank q of a job on all ranks: [sum(counts), W]; by an all-to-all, for torch's all-gather asks for
    equal counts.

    values: this rank's rows.
    """
    into = values.new_empty(sum(counts), values.shape[1])
    exchange.all_to_all(into, torch.cat([values] * len(counts)), counts, [len(values)] * len(counts))
    return into


def receive_counts(exchange: Exchange, rows: Sequence[int], device: torch.device) -> list[int]:
    """Return how many rows each rank of the job will send to this one in the all-to-all to come, where this one sends `rows[q]` to rank q.

    The ranks tell each other, so that every rank calls it. device: of the process group.
    """
    own = torch.tensor(rows, dtype=torch.int64, device=device).view(-1, 1)
    into, ones = torch.empty_like(own), [1] * len(rows)
    exchange.all_to_all(into, own, ones, ones)
    return into.view(-1).tolist()
