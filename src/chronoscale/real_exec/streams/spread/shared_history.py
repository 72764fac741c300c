"""SharedHistory: memory of shared nodes when it was synchronised last, and how it changes; the same on all ranks (MemShare §3.4)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

NEWER = 0.1  # weight of the newest increment in the moving average


class SharedHistory:
    """How the memory of the S nodes that all ranks share has changed from one synchronisation to the next; the same on all ranks (MemShare
    §3.4).

    memory float32 [S, H]: s~, as synchronised last; time float64 [S]: of the newest event in it or its mailbox; increment float32 [S, H]
    and gap float64 [S]: moving averages of what one synchronisation adds to the one before, and of the time between the two, 0 before a
    second. seen bool [S]: it was synchronised.

    The paper's Delta S(u, t - t^-), "moving average increments", has no formula: here it is the average increment, times the share of the
    average gap that has passed, at most 1.
    """

    def __init__(self, nodes: int, width: int, begun: float) -> None:
        self._begun = begun
        self.memory, self.increment = torch.zeros(nodes, width), torch.zeros(nodes, width)
        self.time, self.gap = torch.full((nodes,), begun, dtype=torch.float64), torch.zeros(nodes, dtype=torch.float64)
        self.seen = torch.zeros(nodes, dtype=torch.bool)

    def reset(self) -> None:
        """Forget all synchronisations of shared nodes, as before the first event."""
        for table, value in ((self.memory, 0), (self.increment, 0), (self.time, self._begun), (self.gap, 0), (self.seen, False)):
            table.fill_(value)

    def tables(self) -> Mapping[str, Tensor]:
        """Return the history of shared nodes as tables by name, for a checkpoint."""
        return {"synchronised": self.memory, "increment": self.increment, "synchronised_at": self.time, "gap": self.gap, "seen": self.seen}

    def expected(self, nodes: Tensor, time: Tensor) -> Tensor:
        """Return the memory that shared nodes may have by now if they go on changing as before: s^ of MemShare's eq. 20, float32 [n, H].

        nodes: int64 [n], numbers among the shared ones. time: float64 [n].
        """
        memory, increment, since, gap = (table.index_select(0, nodes) for table in (self.memory, self.increment, self.time, self.gap))
        share = torch.where(gap > 0, (time - since) / gap, 0.0).clamp(0, 1)
        return torch.addcmul(memory, increment, share[:, None].float())

    def has_changed(self, nodes: Tensor, memory: Tensor, alpha: float) -> Tensor:
        """Return whether shared nodes' memory [n, H] has turned by more than alpha since it was synchronised, bool [n] (MemShare eq. 18).

        nodes: int64 [n], numbers among the shared ones. The measure is 1 - cosine similarity. What was never synchronised has changed,
        unless there is nothing in it yet.
        """
        turned = 1 - functional.cosine_similarity(memory, self.memory.index_select(0, nodes), eps=1e-8) > alpha
        return torch.where(self.seen.index_select(0, nodes), turned, memory.any(1))

    def observe(self, nodes: Tensor, memory: Tensor, time: Tensor) -> None:
        """Record the memory [n, H] of shared nodes [n], each once, at time float64 [n], as synchronised; rows older than the known ones are
        ignored.
        """
        newer = time >= self.time[nodes]
        nodes = nodes[newer]
        memory = memory[newer]
        time = time[newer]
        added = memory - self.memory[nodes]
        passed = time - self.time[nodes]
        again = self.seen[nodes]
        weight = torch.where(self.gap[nodes] > 0, NEWER, 1.0)
        self.increment[nodes] = torch.where(again[:, None], torch.lerp(self.increment[nodes], added, weight[:, None].float()), 0.0)
        self.gap[nodes] = torch.where(again, torch.lerp(self.gap[nodes], passed, weight.double()), 0.0)
        self.memory[nodes] = memory
        self.time[nodes] = time
        self.seen[nodes] = True
