"""Objective: targets, loss and scores of a model's predictions on a snapshot sequence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.batching.snapshots.held_out import SnapshotSplit
from chronoscale.batching.snapshots.link_rivals import score_snapshot_link_rivals
from chronoscale.batching.snapshots.links import TERMS, LinkPairs, mean_scores, score_sums
from chronoscale.batching.snapshots.series_rivals import score_series_rivals
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.real_exec.snapshots.pair_logits import pair_logits
from chronoscale.strategies.snapshots.tasks import SnapshotTask
from chronoscale.strategies.workload import Hyper

NAN = float("nan")


class Objective(ABC):
    """What a model on snapshots is trained and scored for: the values to predict, the loss, and the scores of predictions [R, outputs] of R
    nodes.

    redraws: whether every epoch trains on targets of its own. terms: how many sums scores are made of.
    """

    redraws: ClassVar[bool] = False
    terms: ClassVar[int] = 2

    @abstractmethod
    def outputs(self, hidden: int) -> int:
        """Return how many numbers a model of width `hidden` reads out of a node."""

    @abstractmethod
    def predictions(self, snapshot: int) -> int:
        """Return how many numbers a snapshot's nodes predict together, over which its loss is a mean."""

    @abstractmethod
    def target(self, snapshot: int, epoch: int = 0) -> NDArray[Any]:
        """Return the true values that a model is trained in an epoch to predict of a snapshot: a row a node, or pairs of nodes."""

    def truth(self, snapshot: int) -> NDArray[Any]:
        """Return what predictions of a held-out snapshot are scored against (`sums`): by default as `target`."""
        return self.target(snapshot)

    @abstractmethod
    def loss(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the training loss of all nodes' predictions, a scalar: the mean over them."""

    @abstractmethod
    def total(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the summed losses of predictions of some nodes, those on one rank, a scalar.

        Divided by `predictions`, those of all ranks add up to the loss.
        """

    @abstractmethod
    def count(self, target: Tensor) -> int:
        """Return over how many predictions of some nodes the loss is a mean: nodes without a class have none. target: on the host."""

    @abstractmethod
    def sums(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the sums that scores are made of, for predictions of some nodes: float64 [terms], without gradient; they add up over
        snapshots and ranks. target: on the same device, as `truth`.
        """

    def prediction_record(self, predicted: Tensor, target: Tensor) -> NDArray[Any]:
        """Return what is kept of predictions of a held-out snapshot for people, on the host: by default all numbers, float32 [N, outputs].
        target: as for `sums`.
        """
        return predicted.detach().cpu().numpy()

    @abstractmethod
    def scores(self, sums: Tensor) -> Mapping[str, float]:
        """Return a model's scores by key, from the sums over all that was predicted (`sums`); empty for nothing."""

    @abstractmethod
    def rivals(self, split: SnapshotSplit, part: range, horizon: int) -> Sequence[RivalScores]:
        """Return the scores of predictions without a model on the snapshots `part`, which a model has to beat, from what is `horizon`
        before. split: of the sequence; what is fitted is fitted to its training, what is chosen is chosen on its validation.
        """


class Regression(Objective):
    """Objective of predicting numbers that change with the snapshot: targets float32 [R, outputs], squared errors."""

    def __init__(self, task: SnapshotTask, snapshots: SnapshotSequence) -> None:
        self._goal, self._snapshots = task.goal, snapshots
        self._outputs = len(task.predicted)

    def outputs(self, hidden: int) -> int:
        return self._outputs

    def predictions(self, snapshot: int) -> int:
        return self._outputs * self._snapshots.num_nodes

    def target(self, snapshot: int, epoch: int = 0) -> NDArray[Any]:
        """Return the numbers to predict of a snapshot's nodes, such as their degrees, float32 [N, outputs]."""
        return self._goal(self._snapshots[snapshot])

    def loss(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared error of all nodes' predictions, for training."""
        return nn.functional.mse_loss(predicted, target)

    def total(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the sum of squared errors of some nodes' predictions."""
        wrong = predicted - target
        return (wrong * wrong).sum()

    def count(self, target: Tensor) -> int:
        return target.numel()

    def sums(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the sum of squared errors of predictions, and how many there are, float64 [2]."""
        wrong = predicted.detach().double() - target
        return torch.stack([(wrong * wrong).sum(), wrong.new_tensor(wrong.numel())])

    def scores(self, sums: Tensor) -> Mapping[str, float]:
        """Return the mean squared error from sums over all that was predicted."""
        squared, count = sums.tolist()
        return {"mse": squared / count} if count else {}

    def rivals(self, split: SnapshotSplit, part: range, horizon: int) -> Sequence[RivalScores]:
        """Return the mean squared errors of forecasts of each node's own series."""
        return score_series_rivals(self.target, split, part, horizon)


class Classification(Objective):
    """Objective of predicting nodes' classes, the same in all snapshots: targets int64 [R], -1 for no class, cross entropy.

    Where nodes are held out (`HeldOut.nodes`), a snapshot of the training has the classes of the nodes that are trained on, one of the
    validation or test those of its own nodes.
    """

    def __init__(self, task: SnapshotTask, snapshots: SnapshotSequence, hyper: Hyper) -> None:
        self._outputs = task.outputs(snapshots.num_classes, snapshots.name, 0)
        assert snapshots.classes is not None
        parts = [part.astype(np.int64) for part in hyper.held.split_classes(snapshots.classes, hyper.seed)]
        self._classes = dict(zip(SnapshotSplit._fields, parts, strict=True))
        self._split = hyper.held.split(len(snapshots)) if hyper.held.nodes else None

    def _of(self, snapshot: int) -> NDArray[np.int64]:
        parts = zip(SnapshotSplit._fields, self._split or (), strict=False)
        return self._classes[next((name for name, part in parts if snapshot in part), "training")]

    def outputs(self, hidden: int) -> int:
        return self._outputs

    def predictions(self, snapshot: int) -> int:
        return int(np.count_nonzero(self._of(snapshot) >= 0))

    def target(self, snapshot: int, epoch: int = 0) -> NDArray[Any]:
        """Return the classes of all nodes, int64 [N], -1 for none, or for one that this snapshot does not tell."""
        return self._of(snapshot)

    def loss(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the mean cross entropy of the nodes with a class, for training."""
        return _entropy(predicted, target)

    def total(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the sum of cross entropies of those of these nodes that have a class."""
        return _entropy(predicted, target, reduction="sum")

    def count(self, target: Tensor) -> int:
        """Return how many of these nodes have a class."""
        return int((target >= 0).sum())

    def sums(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return how many nodes with a class are predicted right (NaN where a prediction is not finite), and how many there are, float64
        [2].
        """
        labelled = target >= 0
        right = ((predicted.argmax(1) == target) & labelled).sum().double()
        finite = predicted.detach()[labelled].isfinite().all()
        return torch.stack([torch.where(finite, right, NAN), labelled.sum().double()])

    def scores(self, sums: Tensor) -> Mapping[str, float]:
        """Return the accuracy over nodes from sums over all that was predicted."""
        right, count = sums.tolist()
        return {"accuracy": right / count} if count else {}

    def rivals(self, split: SnapshotSplit, part: range, horizon: int) -> Sequence[RivalScores]:
        """Return the accuracy of predicting, for all nodes of a part, the class that most nodes of the training have. `horizon` is not
        read: classes are the same in all snapshots, so that nothing of a node's past tells more of its class than itself.
        """
        trained, scored = self._classes["training"], self._of(part[0])
        most = np.bincount(trained[trained >= 0]).argmax()
        right = float(np.mean(scored[scored >= 0] == most))
        return [RivalScores("most frequent class", "the class that most nodes have", {"accuracy": right})]


class LinkPrediction(Objective):
    """Objective of telling a snapshot's edges from pairs without one: targets int32 [2, 2 E], edges before their negatives (`LinkPairs`);
    binary cross entropy of the decoder's logits, the mean over pairs; of a snapshot without edges 0.

    Predictions are of all nodes: an edge's loss needs both ends.
    """

    redraws = True
    terms = TERMS

    def __init__(self, task: SnapshotTask, snapshots: SnapshotSequence, hyper: Hyper) -> None:
        self._task, self._name = task, snapshots.name
        self._pairs = LinkPairs(snapshots, hyper.held, hyper.links, hyper.seed)

    def outputs(self, hidden: int) -> int:
        return self._task.outputs(0, self._name, hidden)

    def predictions(self, snapshot: int) -> int:
        return self._pairs.count(snapshot)

    def target(self, snapshot: int, epoch: int = 0) -> NDArray[Any]:
        """Return the pairs of a snapshot that an epoch trains on, int32 [2, 2 E]."""
        return self._pairs.training(snapshot, epoch)

    def truth(self, snapshot: int) -> NDArray[Any]:
        """Return the pairs that predictions of a held-out snapshot are scored on, int32 [E, 3 + ranked] (`LinkPairs.evaluated`)."""
        return self._pairs.evaluated(snapshot)

    def loss(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the mean binary cross entropy of a snapshot's pairs, for training."""
        return self.total(predicted, target) / max(self.count(target), 1)

    def total(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the sum of binary cross entropies of a snapshot's pairs."""
        edge, none = pair_logits(predicted, target[0], target[1]).chunk(2) if target.numel() else (predicted[:0, 0],) * 2
        return nn.functional.softplus(-edge).sum() + nn.functional.softplus(none).sum()

    def count(self, target: Tensor) -> int:
        return target.shape[1]

    def sums(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return AP, AUC and MRR of a held-out snapshot's edges, and for each how many snapshots have it, float64 [5]."""
        scores = self.prediction_record(predicted, target)
        return torch.from_numpy(score_sums(scores[:, 0], scores[:, 1:])).to(predicted.device)

    def prediction_record(self, predicted: Tensor, target: Tensor) -> NDArray[Any]:
        """Return the scores of a held-out snapshot's edges and of their negatives, float64 [E, 2 + ranked]; -inf where there is none."""
        source, ends = target[:, 0].repeat_interleave(target.shape[1] - 1), target[:, 1:]
        logits = pair_logits(predicted.detach(), source, ends.clamp(min=0).flatten()).view(ends.shape)
        return torch.where(ends >= 0, logits, -torch.inf).double().cpu().numpy()

    def scores(self, sums: Tensor) -> Mapping[str, float]:
        """Return AP, AUC and MRR, each the mean over the held-out snapshots that have edges."""
        return mean_scores(sums.cpu().numpy())

    def rivals(self, split: SnapshotSplit, part: range, horizon: int) -> Sequence[RivalScores]:
        """Return the scores of what needs no network to predict links (`batching.snapshots.link_rivals`)."""
        return score_snapshot_link_rivals(self._pairs, part, horizon)


_entropy = partial(nn.functional.cross_entropy, ignore_index=-1)


def objective_of(task: SnapshotTask, snapshots: SnapshotSequence, hyper: Hyper) -> Objective:
    """Return what a model is trained and scored for, for a task on snapshots. hyper: which are held out, and how negatives are drawn.

    Raises UserError where they lack the classes or edges that it asks for.
    """
    if task.pairs:
        return LinkPrediction(task, snapshots, hyper)
    return Classification(task, snapshots, hyper) if task.classifies else Regression(task, snapshots)
