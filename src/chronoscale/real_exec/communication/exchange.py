"""Exchange: rows that go from one rank to another: send, receive, all-to-all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor


class Exchange(Protocol):
    """Point-to-point and all-to-all communication. Tensors are contiguous, on the group's device, and of one dtype on all ranks."""

    def send(self, values: Tensor, rank: int) -> None:
        """Send `values` to one rank, which receives a tensor of the same shape."""
        ...

    def receive(self, into: Tensor, rank: int) -> None:
        """Receive into a tensor what one rank sends."""
        ...

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        """Send `rows[q]` rows of `values` [sum(rows), W] to each rank q, and receive `into_rows[q]` rows of it into `into` [sum(into_rows),
        W].

        Every rank calls it; W and counts may be 0.
        """
        ...


class TorchExchange:
    """Communication by torch.distributed's default process group: gloo on CPUs, nccl on GPUs."""

    def send(self, values: Tensor, rank: int) -> None:
        dist.send(values, rank)

    def receive(self, into: Tensor, rank: int) -> None:
        dist.recv(into, rank)

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        dist.all_to_all_single(into, values, list(into_rows), list(rows))


class SingleRankExchange:
    """The exchange of a job with one rank, whose schedules send nothing to others."""

    def send(self, values: Tensor, rank: int) -> None:
        raise RuntimeError(f"one rank alone cannot send to rank {rank}")

    def receive(self, into: Tensor, rank: int) -> None:
        raise RuntimeError(f"one rank alone cannot receive from rank {rank}")

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        into.copy_(values)


def all_gather(exchange: Exchange, values: Tensor, counts: Sequence[int]) -> Tensor:
    """Gather rows [counts[q], W] of every rank q: [sum(counts), W]; torch's all-gather would ask for equal counts."""
    into = values.new_empty(sum(counts), values.shape[1])
    exchange.all_to_all(into, torch.cat([values] * len(counts)), counts, [len(values)] * len(counts))
    return into


def receive_counts(exchange: Exchange, rows: Sequence[int], device: torch.device) -> list[int]:
    """Return how many rows every rank is about to send to this one, which sends `rows[q]` to rank q: what an all-to-all receives."""
    own = torch.tensor(rows, dtype=torch.int64, device=device).view(-1, 1)
    into, ones = torch.empty_like(own), [1] * len(rows)
    exchange.all_to_all(into, own, ones, ones)
    return into.view(-1).tolist()
