"""What trainers on windows of snapshots are given alike, and what each of them tells of an epoch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.strategies.workload import Hyper

Losses = list[float]


class Trainer(Protocol):
    """Trains a model of its own, from epoch to epoch."""

    def epoch(self) -> Losses:
        """One optimiser step a window, in order; the loss of each before its step."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Of a sequence: x float32 [N, F]; of every snapshot edges int64 [2, E] from source to destination, and targets float32 [N], which
    are predicted a snapshot ahead. `each`: after every snapshot of a window, and the loss is the mean; else after the last."""

    x: Tensor
    edges: list[Tensor]
    targets: list[Tensor]
    size: int
    each: bool

    @classmethod
    def of(cls, sequence: SnapshotSequence, material: SnapshotMaterial, hyper: Hyper, each: bool) -> Windows:
        """As `material` has features and targets. Windows start at every snapshot that one fits behind."""
        material.prepare([], range(len(sequence)))
        edges = [torch.from_numpy(np.stack([s.src, s.dst]).astype(np.int64)) for s in sequence]
        targets = [material.target(t).squeeze(1) for t in range(len(sequence))]
        return cls(material.features(0), edges, targets, hyper.group_size, each)

    @property
    def groups(self) -> int:
        return len(self.edges) - self.size

    def loss(self, window: int, output: Callable[[int], Tensor]) -> Tensor:
        """Of one window. `output` takes its snapshots in order, once each, to predictions [N]."""
        errors = []
        for t in range(window, window + self.size):
            predicted = output(t)
            if self.each or t + 1 == window + self.size:
                errors.append(nn.functional.mse_loss(predicted, self.targets[t + 1].to(predicted.dtype)))
        return torch.stack(errors).mean()

    def epoch(self, optimizer: torch.optim.Optimizer, begin: Callable[[], Callable[[int], Tensor]]) -> Losses:
        """The usual loop. `begin`: a window's `output`, with no state yet."""
        losses = []
        for window in range(self.groups):
            loss = self.loss(window, begin())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses


def timed(trainer: Trainer) -> float:
    """Seconds of an epoch, a window: not all have as many."""
    start = time.perf_counter()
    losses = trainer.epoch()
    return (time.perf_counter() - start) / len(losses)


def apart(losses: Losses, others: Losses) -> float:
    """The largest relative difference, step by step."""
    assert len(losses) == len(others)
    return float(np.abs(np.array(losses) / np.array(others) - 1).max())


def normal(edges: Tensor, nodes: int, symmetric: bool, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """(A + I) with degree normalisation: edges with self-loops int64 [2, E + N], weights [E + N]. Rows by their in-degree, columns by
    their out-degree; `symmetric`: both by the in-degree, as PyTorch Geometric has it."""
    loops = torch.cat([edges, torch.arange(nodes).expand(2, nodes)], 1)
    into, out = (torch.bincount(side, minlength=nodes).to(dtype) for side in (loops[1], loops[0]))
    return loops, ((into if symmetric else out)[loops[0]] * into[loops[1]]).rsqrt()
