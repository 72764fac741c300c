"""Objective: targets, loss and scores of a model's predictions on a snapshot sequence."""

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
    """A prediction task on a sequence: targets, loss and scores of predictions [R, outputs] of R nodes.

    predictions: how many numbers a snapshot's nodes predict together, over which a loss is a mean.
    """

    outputs: int
    predictions: int

    @abstractmethod
    def target(self, snapshot: int) -> NDArray[Any]:
        """Return the true values of a snapshot's nodes, a row each."""

    @abstractmethod
    def loss(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the mean over the predictions of all nodes, a scalar."""

    @abstractmethod
    def total(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the sum over the predictions of some nodes, a scalar; divided by `predictions`, those of all ranks add up to the loss."""

    @abstractmethod
    def count(self, target: Tensor) -> int:
        """Return how many of the predictions of some nodes count; targets are on the host."""

    @abstractmethod
    def sums(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the sums that scores are made of, float64 [2], without gradient; they add up over nodes, snapshots and ranks."""

    @abstractmethod
    def scores(self, sums: Tensor) -> Mapping[str, float]:
        """Return scores by key."""

    @abstractmethod
    def naive(self, training: range, part: range, horizon: int) -> Mapping[str, Mapping[str, float]]:
        """Return the scores, by name, of predictions without a model, on the snapshots `part`.

        They may use those of `training`, and what is `horizon` before.
        """


class Regression(Objective):
    """Regression of numbers that change with the snapshot: targets float32 [R, outputs], squared errors."""

    def __init__(self, task: SnapshotTask, snapshots: SnapshotSequence) -> None:
        self._goal, self._snapshots = task.goal, snapshots
        self.outputs = len(task.predicted)
        self.predictions = self.outputs * snapshots.num_nodes

    def target(self, snapshot: int) -> NDArray[Any]:
        """Return values of a snapshot's own degrees."""
        return self._goal(self._snapshots[snapshot])

    def loss(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared error."""
        return nn.functional.mse_loss(predicted, target)

    def total(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the sum of squared errors."""
        wrong = predicted - target
        return (wrong * wrong).sum()

    def count(self, target: Tensor) -> int:
        return target.numel()

    def sums(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the sum of squared errors, and how many there are."""
        wrong = predicted.detach().double() - target
        return torch.stack([(wrong * wrong).sum(), wrong.new_tensor(wrong.numel())])

    def scores(self, sums: Tensor) -> Mapping[str, float]:
        """Return the MSE."""
        squared, count = sums.tolist()
        return {"mse": squared / count} if count else {}

    def naive(self, training: range, part: range, horizon: int) -> Mapping[str, Mapping[str, float]]:
        """Return scores of a node's last values, and of its mean values in training."""
        mean = torch.from_numpy(np.mean([self.target(t) for t in training], axis=0, dtype=np.float64))
        sums = {LAST: torch.zeros(2, dtype=torch.float64), MEAN: torch.zeros(2, dtype=torch.float64)}
        for t in part:
            target = torch.from_numpy(self.target(t))
            sums[LAST] += self.sums(torch.from_numpy(self.target(t - horizon)), target)
            sums[MEAN] += self.sums(mean, target)
        return {name: self.scores(total) for name, total in sums.items()}


class Classification(Objective):
    """Classification of nodes, the same in all snapshots: targets int64 [R], -1 for no class, cross entropy."""

    def __init__(self, task: SnapshotTask, snapshots: SnapshotSequence) -> None:
        self.outputs = task.outputs(snapshots.num_classes, snapshots.name)
        assert snapshots.classes is not None
        self._classes = snapshots.classes.astype(np.int64)
        self.predictions = int(np.count_nonzero(self._classes >= 0))

    def target(self, snapshot: int) -> NDArray[Any]:
        """Return the classes of all nodes."""
        return self._classes

    def loss(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the mean cross entropy of the labelled nodes."""
        return _entropy(predicted, target)

    def total(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the sum of cross entropies of the labelled ones of these nodes."""
        return _entropy(predicted, target, reduction="sum")

    def count(self, target: Tensor) -> int:
        """Return how many of these nodes are labelled."""
        return int((target >= 0).sum())

    def sums(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return how many labelled nodes are predicted right (NaN where a prediction is not finite), and how many there are."""
        labelled = target >= 0
        right = ((predicted.argmax(1) == target) & labelled).sum().double()
        finite = predicted.detach()[labelled].isfinite().all()
        return torch.stack([torch.where(finite, right, NAN), labelled.sum().double()])

    def scores(self, sums: Tensor) -> Mapping[str, float]:
        """Return the accuracy."""
        right, count = sums.tolist()
        return {"accuracy": right / count} if count else {}

    def naive(self, training: range, part: range, horizon: int) -> Mapping[str, Mapping[str, float]]:
        """Return the score of the class that most nodes have."""
        most = np.bincount(self._classes[self._classes >= 0]).max()
        return {"most frequent class": {"accuracy": float(most / self.predictions)}}


_entropy = partial(nn.functional.cross_entropy, ignore_index=-1)


def objective_of(task: SnapshotTask, snapshots: SnapshotSequence) -> Objective:
    """Return the objective of a task on a sequence. Raises UserError where the sequence lacks the classes that it asks for."""
    return Classification(task, snapshots) if task.classifies else Regression(task, snapshots)
