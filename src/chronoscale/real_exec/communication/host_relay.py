"""Relayed: communication of ranks that share a GPU, by way of the host's memory: NCCL takes no two ranks on one device, gloo does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.communication.exchange import Exchange
from chronoscale.real_exec.execution.transfers import to_device


class HostRelayCollective:
    """Another collective's operations, which takes tensors of the host; whoever calls waits for the device before each."""

    def __init__(self, inner: Collective) -> None:
        self.ranks, self._inner = inner.ranks, inner

    def all_reduce(self, values: Tensor) -> None:
        """Sum over ranks, in place."""
        here = values.cpu()
        self._inner.all_reduce(here)
        values.copy_(to_device(here, values.device))

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Rows of all ranks, on the device."""
        return to_device(self._inner.all_gather(rows.cpu(), counts), rows.device)

    def barrier(self) -> None:
        """Wait for every rank."""
        self._inner.barrier()


class HostRelayExchange:
    """Another exchange's operations, likewise."""

    def __init__(self, inner: Exchange) -> None:
        self._inner = inner

    def send(self, values: Tensor, rank: int) -> None:
        """To one rank."""
        self._inner.send(values.cpu(), rank)

    def receive(self, into: Tensor, rank: int) -> None:
        """From one rank."""
        here = torch.empty_like(into, device="cpu")
        self._inner.receive(here, rank)
        into.copy_(to_device(here, into.device))

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        """Rows to and from every rank."""
        here = torch.empty_like(into, device="cpu")
        self._inner.all_to_all(here, values.cpu(), into_rows, rows)
        into.copy_(to_device(here, into.device))
