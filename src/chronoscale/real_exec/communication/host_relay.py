"""Communication by way of host memory, for ranks that share a GPU: NCCL takes no two ranks on one device, gloo does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from chronoscale.real_exec.communication.collective import Collective, Numbers
from chronoscale.real_exec.communication.exchange import Exchange
from chronoscale.real_exec.execution.transfers import to_device


class HostRelayCollective:
    """Collective of ranks that share a GPU: device tensors go by way of host memory through `inner`, which takes host tensors (gloo).

    Every call waits for the device.
    """

    def __init__(self, inner: Collective) -> None:
        self.ranks, self.rank, self._inner = inner.ranks, inner.rank, inner

    def all_reduce(self, values: Tensor) -> None:
        here = values.cpu()
        self._inner.all_reduce(here)
        values.copy_(to_device(here, values.device))

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        return to_device(self._inner.all_gather(rows.cpu(), counts), rows.device)

    def barrier(self) -> None:
        self._inner.barrier()

    def sum_array(self, values: Numbers) -> Numbers:
        return self._inner.sum_array(values)


class HostRelayExchange:
    """Exchange of ranks that share a GPU: device tensors go by way of host memory through `inner`, which takes host tensors (gloo).

    Every call waits for the device.
    """

    def __init__(self, inner: Exchange) -> None:
        self._inner = inner

    def send(self, values: Tensor, rank: int) -> None:
        self._inner.send(values.cpu(), rank)

    def receive(self, into: Tensor, rank: int) -> None:
        here = torch.empty_like(into, device="cpu")
        self._inner.receive(here, rank)
        into.copy_(to_device(here, into.device))

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        here = torch.empty_like(into, device="cpu")
        self._inner.all_to_all(here, values.cpu(), into_rows, rows)
        into.copy_(to_device(here, into.device))
