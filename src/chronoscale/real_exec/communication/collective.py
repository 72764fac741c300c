"""Collective: all-reduce, all-gather and barrier over the ranks of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

Numbers = TypeVar("Numbers", bound=NDArray[Any])


class Collective(Protocol):
    """Operations that all ranks of a job take part in together: all-reduce, all-gather, barrier.

    Programs communicate by it during real execution.
    """

    ranks: int
    rank: int

    def all_reduce(self, values: Tensor) -> None:
        """Sum `values` over all ranks of the job, in place."""
        ...

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Gather rows [counts[r], W] of every rank r of the job on all ranks: [sum(counts), W]. Ranks may have different numbers."""
        ...

    def barrier(self) -> None:
        """Wait until every rank of the job has come here."""
        ...

    def sum_array(self, values: Numbers) -> Numbers:
        """Return the sum of an array in host memory over all ranks of the job: what was measured of them, which is no part of training."""
        ...


class SingleRankCollective:
    """Collective of a job with one rank: there is nothing to communicate."""

    ranks = 1
    rank = 0

    def all_reduce(self, values: Tensor) -> None:
        """Leave the values as they are: they are the sum over one rank."""

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Return the rows as they are."""
        return rows

    def barrier(self) -> None:
        """Return at once, for there is no other rank."""

    def sum_array(self, values: Numbers) -> Numbers:
        return values


class TorchCollective:
    """Collective by torch.distributed's default process group: gloo on CPUs, nccl on GPUs."""

    def __init__(self) -> None:
        self.ranks, self.rank = dist.get_world_size(), dist.get_rank()

    def all_reduce(self, values: Tensor) -> None:
        dist.all_reduce(values)

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Gather rows of all ranks of the job by torch.distributed: [sum(counts), W].

        The backends ask for equal numbers of rows; on the way, shares are padded to the longest.
        """
        most = max(counts)
        own = rows.new_zeros(most, rows.shape[1])
        own[: len(rows)] = rows
        padded = rows.new_empty(self.ranks * most, rows.shape[1])
        dist.all_gather_into_tensor(padded, own)
        return torch.cat([padded[rank * most : rank * most + count] for rank, count in enumerate(counts)])

    def barrier(self) -> None:
        flag = torch.zeros(1, device="cuda" if dist.get_backend() == "nccl" else "cpu")
        dist.all_reduce(flag)

    def sum_array(self, values: Numbers) -> Numbers:
        tensor = torch.from_numpy(np.array(values))
        if dist.get_backend() == "nccl":
            tensor = tensor.cuda()
        dist.all_reduce(tensor)
        return cast(Numbers, tensor.cpu().numpy())
