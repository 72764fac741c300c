"""Collective: what ranks do together. One process needs none of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor


class Collective(Protocol):
    """Sums over all ranks, in place; rows of all ranks."""

    ranks: int

    def all_reduce(self, values: Tensor) -> None: ...

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Rows [counts[r], W] of every rank r, on all ranks: [sum(counts), W]."""
        ...

    def barrier(self) -> None: ...


class SingleRankCollective:
    """One rank."""

    ranks = 1

    def all_reduce(self, values: Tensor) -> None:
        """A sum over one rank."""

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """This rank's are all there are."""
        return rows

    def barrier(self) -> None:
        """Nobody to wait for."""


class TorchCollective:
    """The default process group of torch.distributed: gloo on CPU, nccl on GPU."""

    def __init__(self) -> None:
        self.ranks = dist.get_world_size()

    def all_reduce(self, values: Tensor) -> None:
        """Sum over ranks, in place."""
        dist.all_reduce(values)

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Rows of all ranks: padded to the most that one has, as the backends ask for equal shares."""
        most = max(counts)
        own = rows.new_zeros(most, rows.shape[1])
        own[: len(rows)] = rows
        made = rows.new_empty(self.ranks * most, rows.shape[1])
        dist.all_gather_into_tensor(made, own)
        return torch.cat([made[rank * most : rank * most + count] for rank, count in enumerate(counts)])

    def barrier(self) -> None:
        """Wait for every rank."""
        flag = torch.zeros(1, device="cuda" if dist.get_backend() == "nccl" else "cpu")
        dist.all_reduce(flag)
