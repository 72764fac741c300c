"""Evaluation: scores of a model on held-out snapshots, the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.snapshots.folds import Fold
from chronoscale.real_exec.snapshots.material import SnapshotForm, SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.whole_graphs import LayerStates, WholeGraphs
from chronoscale.strategies.workload import Hyper


class Evaluation(Protocol):
    """A way for ranks to predict held-out snapshots, like that of the schedules which the model is trained by."""

    _whole: WholeGraphs

    def write_predictions_to(self, folder: Path) -> None:
        """Have what is predicted from now on written to a folder, which is there, a file a snapshot (`Objective.prediction_record`)."""
        self._whole.predictions_folder = folder

    def scores(self, model: SnapshotModel, part: range) -> Mapping[str, float]:
        """Return a model's scores, by key, of predicting the held-out snapshots `part`, without training; the same on all ranks, each of
        which calls it.
        """
        ...


@contextmanager
def evaluation_mode(model: SnapshotModel) -> Iterator[None]:
    """Return a context manager in which a model on snapshots is in evaluation mode, without gradients; afterwards it is as before."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


class GroupEvaluation(Evaluation):
    """Evaluation that predicts each held-out snapshot from the group that ends `horizon` before it, from the zero state, on whole graphs.

    Where every snapshot of a group has a prediction, the last one is scored. Snapshots are assigned to ranks in turn.
    """

    def __init__(self, material: SnapshotMaterial, hyper: Hyper, context: Context) -> None:
        self._whole = WholeGraphs(material, hyper, context)

    def scores(self, model: SnapshotModel, part: range) -> Mapping[str, float]:
        whole, context = self._whole, self._whole.context
        sums = whole.no_sums()
        with evaluation_mode(model):
            for goal in part[context.rank :: context.ranks]:
                last = goal - whole.hyper.horizon
                fold = whole.fold(model, group := range(last - whole.hyper.group_size + 1, last + 1))
                sums += whole.sums(model, self._output(model, group, fold), goal, fold)
        return whole.reduce_scores(sums)

    def _output(self, model: SnapshotModel, group: range, fold: Fold) -> Tensor:
        """Return the output of the last snapshot of a group, of a fold's rows, [R, H]."""
        whole = self._whole
        whole.material.prepare((SnapshotForm(t, fold=fold) for t in group), [group.stop - 1 + whole.hyper.horizon])
        states: LayerStates = [None] * model.shape.layers
        for t in group:
            output, states = whole.run_layers(model, t, states, fold)
        return output


class RunningEvaluation(Evaluation):
    """Evaluation that predicts held-out snapshots with a state that runs on from the first snapshot, on whole graphs: on rank 0, while the
    others wait.
    """

    def __init__(self, material: SnapshotMaterial, hyper: Hyper, context: Context) -> None:
        self._whole = WholeGraphs(material, hyper, context)

    def scores(self, model: SnapshotModel, part: range) -> Mapping[str, float]:
        whole, horizon = self._whole, self._whole.hyper.horizon
        sums = whole.no_sums()
        if whole.context.rank > 0:
            return whole.reduce_scores(sums)
        last = part.stop - horizon
        folds = [whole.fold(model, range(t + 1)) for t in range(last)]
        whole.material.prepare((SnapshotForm(t, fold=fold) for t, fold in enumerate(folds)), part)
        states: LayerStates = [None] * model.shape.layers
        with evaluation_mode(model):
            for t, fold in enumerate(folds):
                output, states = whole.run_layers(model, t, whole.grow(model, states, folds[max(t - 1, 0)], fold), fold)
                if t + horizon in part:
                    sums += whole.sums(model, output, t + horizon, fold)
        return whole.reduce_scores(sums)
