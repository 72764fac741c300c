"""History: what ranks know in common of shared nodes: their memory when it was synchronised last, and how it changes (MemShare §3.4)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

NEWER = 0.1  # weight of the newest increment in the moving average


class History:
    """Of S shared nodes. memory float32 [S, H], s~; time float64 [S], that of it; increment float32 [S, H] and gap float64 [S]: moving
    averages of what one synchronisation adds to the one before, and of the time between the two; 0 before a second.

    Memory begins empty and is synchronised so. The paper's Delta S(u, t - t^-) "moving average increments" has no formula: here it is the
    average increment, times the share of the average gap that has passed, at most 1.
    """

    def __init__(self, nodes: int, width: int, begun: float) -> None:
        self._begun = begun
        self.memory, self.increment = torch.zeros(nodes, width), torch.zeros(nodes, width)
        self.time, self.gap = torch.full((nodes,), begun, dtype=torch.float64), torch.zeros(nodes, dtype=torch.float64)

    def reset(self) -> None:
        """As before the first event."""
        for table, value in ((self.memory, 0), (self.increment, 0), (self.time, self._begun), (self.gap, 0)):
            table.fill_(value)

    def tables(self) -> Mapping[str, Tensor]:
        """By name, for a checkpoint."""
        return {"synchronised": self.memory, "increment": self.increment, "synchronised_at": self.time, "gap": self.gap}

    def expected(self, nodes: Tensor, time: Tensor) -> Tensor:
        """s^ of eq. 20: memory that nodes int64 [n], by their numbers among shared ones, may have at time float64 [n]; float32 [n, H]."""
        memory, increment, since, gap = (table.index_select(0, nodes) for table in (self.memory, self.increment, self.time, self.gap))
        share = torch.where(gap > 0, (time - since) / gap, 0.0).clamp(0, 1)
        return torch.addcmul(memory, increment, share[:, None].float())

    def aged(self, nodes: Tensor, memory: Tensor, alpha: float) -> Tensor:
        """Whether memory [n, H] of nodes [n] has turned by more than alpha since it was synchronised, bool [n] (eq. 18): 1 - cosine
        similarity, which is 1 of what was empty."""
        return 1 - functional.cosine_similarity(memory, self.memory.index_select(0, nodes), eps=1e-8) > alpha

    def observe(self, nodes: Tensor, memory: Tensor, time: Tensor) -> None:
        """Memory [n, H] of nodes [n], each once, is that of all ranks from time float64 [n] on."""
        added, passed = memory - self.memory[nodes], (time - self.time[nodes]).clamp(min=0)
        weight = torch.where(self.gap[nodes] > 0, NEWER, 1.0)
        self.increment[nodes] = torch.lerp(self.increment[nodes], added, weight[:, None].float())
        self.gap[nodes] = torch.lerp(self.gap[nodes], passed, weight.double())
        self.memory[nodes], self.time[nodes] = memory, time
