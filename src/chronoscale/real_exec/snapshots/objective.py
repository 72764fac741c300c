"""Objective: what a model's predictions on a sequence are held to: targets, loss, scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from chronoscale.batching.signals.naive import LAST, MEAN
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.strategies.snapshots.tasks import SnapshotTask

NAN = float("nan")


class Objective(ABC):
    """Predictions of R nodes are `outputs` numbers each, [R, outputs]; `predictions`: that a snapshot's nodes have together, over which a
    loss is a mean."""

    outputs: int
    predictions: int

    @abstractmethod
    def target(self, snapshot: int) -> NDArray[Any]:
        """What is true of the nodes of a snapshot, a row each."""

    @abstractmethod
    def loss(self, predicted: Tensor, target: Tensor) -> Tensor:
        """The mean over the predictions of all nodes, a scalar."""

    @abstractmethod
    def total(self, predicted: Tensor, target: Tensor) -> Tensor:
        """The sum over the predictions of some nodes, a scalar: divided by `predictions`, those of all ranks add up to the loss."""

    @abstractmethod
    def count(self, target: Tensor) -> int:
        """Of the predictions of some nodes, those that count; on the host."""

    @abstractmethod
    def sums(self, predicted: Tensor, target: Tensor) -> Tensor:
        """What scores are made of, float64 [2], no gradient: it adds up over nodes, snapshots and ranks."""

    @abstractmethod
    def scores(self, sums: Tensor) -> Mapping[str, float]:
        """By key."""

    @abstractmethod
    def naive(self, training: range, part: range, horizon: int) -> Mapping[str, Mapping[str, float]]:
        """Scores by name of what needs no model, on the snapshots `part`: it knows those of `training`, and what is `horizon` before."""


class Regression(Objective):
    """Numbers of a node, which change with the snapshot: targets float32 [R, outputs], squared errors."""

    def __init__(self, task: SnapshotTask, snapshots: SnapshotSequence) -> None:
        self._goal, self._snapshots = task.goal, snapshots
        self.outputs = len(task.predicted)
        self.predictions = self.outputs * snapshots.num_nodes

    def target(self, snapshot: int) -> NDArray[Any]:
        """Of a snapshot's own degrees."""
        return self._goal(self._snapshots[snapshot])

    def loss(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Mean squared error."""
        return nn.functional.mse_loss(predicted, target)

    def total(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Squared errors."""
        wrong = predicted - target
        return (wrong * wrong).sum()

    def count(self, target: Tensor) -> int:
        """All."""
        return target.numel()

    def sums(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Squared errors, and how many."""
        wrong = predicted.detach().double() - target
        return torch.stack([(wrong * wrong).sum(), wrong.new_tensor(wrong.numel())])

    def scores(self, sums: Tensor) -> Mapping[str, float]:
        """MSE."""
        squared, count = sums.tolist()
        return {"mse": squared / count} if count else {}

    def naive(self, training: range, part: range, horizon: int) -> Mapping[str, Mapping[str, float]]:
        """What a node's degrees were last, and what they are on average in training."""
        mean = torch.from_numpy(np.mean([self.target(t) for t in training], axis=0, dtype=np.float64))
        sums = {LAST: torch.zeros(2, dtype=torch.float64), MEAN: torch.zeros(2, dtype=torch.float64)}
        for t in part:
            target = torch.from_numpy(self.target(t))
            sums[LAST] += self.sums(torch.from_numpy(self.target(t - horizon)), target)
            sums[MEAN] += self.sums(mean, target)
        return {name: self.scores(found) for name, found in sums.items()}


class Classification(Objective):
    """A node's class, the same in all snapshots: targets int64 [R], -1 where there is none, cross entropy."""

    def __init__(self, task: SnapshotTask, snapshots: SnapshotSequence) -> None:
        self.outputs = task.outputs(snapshots.num_classes, snapshots.name)
        assert snapshots.classes is not None
        self._classes = snapshots.classes.astype(np.int64)
        self.predictions = int(np.count_nonzero(self._classes >= 0))

    def target(self, snapshot: int) -> NDArray[Any]:
        """Of all nodes."""
        return self._classes

    def loss(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Mean cross entropy of the labelled nodes."""
        return _entropy(predicted, target)

    def total(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Cross entropy of the labelled ones of these nodes."""
        return _entropy(predicted, target, reduction="sum")

    def count(self, target: Tensor) -> int:
        """Of labelled nodes."""
        return int((target >= 0).sum())

    def sums(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Labelled nodes that are predicted right, NaN where a prediction is not finite, and how many there are."""
        labelled = target >= 0
        right = ((predicted.argmax(1) == target) & labelled).sum().double()
        finite = predicted.detach()[labelled].isfinite().all()
        return torch.stack([torch.where(finite, right, NAN), labelled.sum().double()])

    def scores(self, sums: Tensor) -> Mapping[str, float]:
        """Accuracy."""
        right, count = sums.tolist()
        return {"accuracy": right / count} if count else {}

    def naive(self, training: range, part: range, horizon: int) -> Mapping[str, Mapping[str, float]]:
        """The class that most nodes have."""
        most = np.bincount(self._classes[self._classes >= 0]).max()
        return {"most frequent class": {"accuracy": float(most / self.predictions)}}


_entropy = partial(nn.functional.cross_entropy, ignore_index=-1)


def objective_of(task: SnapshotTask, snapshots: SnapshotSequence) -> Objective:
    """Of a task on a sequence. Raises UserError as `SnapshotTask.outputs`."""
    return Classification(task, snapshots) if task.classifies else Regression(task, snapshots)
