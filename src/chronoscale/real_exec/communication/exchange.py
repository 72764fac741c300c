"""Exchange: rows that go from rank to rank, as rows of a schedule say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor


class Exchange(Protocol):
    """Every rank calls the same operation; tensors are contiguous, on the group's device, and of one dtype on all ranks."""

    def send(self, values: Tensor, rank: int) -> None:
        """To one rank, which receives as many."""
        ...

    def receive(self, into: Tensor, rank: int) -> None:
        """From one rank."""
        ...

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        """Rows of `values` [sum(rows), W], `rows[q]` to rank q; `into` [sum(into_rows), W] likewise from every rank.

        W and counts may be 0.
        """
        ...


class TorchExchange:
    """The default process group of torch.distributed: gloo on CPU, nccl on GPU."""

    def send(self, values: Tensor, rank: int) -> None:
        dist.send(values, rank)

    def receive(self, into: Tensor, rank: int) -> None:
        dist.recv(into, rank)

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        dist.all_to_all_single(into, values, list(into_rows), list(rows))


class SingleRankExchange:
    """One rank: its schedules have no rows of this kind."""

    def send(self, values: Tensor, rank: int) -> None:
        raise RuntimeError(f"one rank alone cannot send to rank {rank}")

    def receive(self, into: Tensor, rank: int) -> None:
        raise RuntimeError(f"one rank alone cannot receive from rank {rank}")

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        into.copy_(values)


def all_gather(exchange: Exchange, values: Tensor, counts: Sequence[int]) -> Tensor:
    """Rows of every rank, [sum(counts), W]; ranks may hold different numbers of them, which all-gathers of torch do not allow."""
    into = values.new_empty(sum(counts), values.shape[1])
    exchange.all_to_all(into, torch.cat([values] * len(counts)), counts, [len(values)] * len(counts))
    return into


def receive_counts(exchange: Exchange, rows: Sequence[int], device: torch.device) -> list[int]:
    """How many rows every rank is about to send to this one, which sends `rows[q]` to rank q: what an all-to-all receives."""
    own = torch.tensor(rows, dtype=torch.int64, device=device).view(-1, 1)
    into, ones = torch.empty_like(own), [1] * len(rows)
    exchange.all_to_all(into, own, ones, ones)
    return into.view(-1).tolist()
