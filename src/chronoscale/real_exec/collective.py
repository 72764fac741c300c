"""Collective: what ranks do together. One process needs none of it."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor


class Collective(Protocol):
    """Sums over all ranks, in place."""

    ranks: int

    def all_reduce(self, values: Tensor) -> None: ...

    def barrier(self) -> None: ...


class Alone:
    """One rank."""

    ranks = 1

    def all_reduce(self, values: Tensor) -> None:
        """A sum over one rank."""

    def barrier(self) -> None:
        """Nobody to wait for."""


class TorchCollective:
    """The default process group of torch.distributed: gloo on CPU, nccl on GPU."""

    def __init__(self) -> None:
        self.ranks = dist.get_world_size()

    def all_reduce(self, values: Tensor) -> None:
        """Sum over ranks, in place."""
        dist.all_reduce(values)

    def barrier(self) -> None:
        """Wait for every rank."""
        flag = torch.zeros(1, device="cuda" if dist.get_backend() == "nccl" else "cpu")
        dist.all_reduce(flag)
