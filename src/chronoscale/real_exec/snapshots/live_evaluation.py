"""Live evaluation: test snapshots predicted one after another by a model that trains on each once it has been scored (You et al., ROLAND,
KDD 2022, §3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

import torch
from torch import Tensor

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.snapshots.evaluation import Evaluation, evaluation_mode
from chronoscale.real_exec.snapshots.folds import Fold
from chronoscale.real_exec.snapshots.material import SnapshotForm, SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.whole_graphs import LayerStates, WholeGraphs
from chronoscale.real_exec.training.learner import adam, rate_at
from chronoscale.strategies.workload import Hyper


class LiveEvaluation(Evaluation):
    """Evaluation that takes `hyper.held.live` optimiser steps on every snapshot of the part as soon as it is known and scored, and predicts
    those that follow with what came of it; on rank 0, while the others wait. The model itself stays as it was.

    A prediction reads the group of snapshots that ends `horizon` before it, from the zero state, or, if the state is `running`, the state
    after all snapshots before, which later steps do not compute again.
    """

    def __init__(self, material: SnapshotMaterial, hyper: Hyper, context: Context, running: bool) -> None:
        self._whole = WholeGraphs(material, hyper, context)
        self._running = running

    def scores(self, model: SnapshotModel, part: range) -> Mapping[str, float]:
        whole = self._whole
        sums = self._sums(deepcopy(model), part) if whole.context.rank == 0 and part else whole.no_sums()
        return whole.reduce_scores(sums)

    def _sums(self, model: SnapshotModel, part: range) -> Tensor:
        """Sums of the scores of all predictions. model: trains on the way."""
        whole, horizon = self._whole, self._whole.hyper.horizon
        reads = range(0 if self._running else part.start - horizon, part.stop - horizon)
        for last in reads:
            fold, group = self._fold(model, last), range(last, last + 1) if self._running else self._group(last)
            whole.material.prepare((SnapshotForm(t, fold=fold) for t in group), part)
        settings = whole.context.settings
        optimizer = adam(model.parameters(), settings, rate_at(settings, max(settings.milestones, default=0)))  # that of the last epochs
        before: dict[int, LayerStates] = {reads.start: self._zero(model)}
        sums = whole.no_sums()
        for t in reads:
            if t in part:
                self._train(model, optimizer, t, before)
            with evaluation_mode(model):
                output, before[t + 1] = self._output(model, t, before[t])
                if t + horizon in part:
                    sums += whole.sums(model, output, t + horizon, self._fold(model, t))
            before.pop(t - horizon, None)  # read for the last time, by `_train`
        return sums

    def _train(self, model: SnapshotModel, optimizer: torch.optim.Optimizer, goal: int, before: Mapping[int, LayerStates]) -> None:
        """Take the steps on a snapshot, predicted from what was read for its score. before: states before each snapshot that was read."""
        whole = self._whole
        target, read = whole.material.target(goal).to(whole.context.device), goal - whole.hyper.horizon
        for _ in range(whole.hyper.held.live):
            optimizer.zero_grad()
            output, _ = self._output(model, read, before[read])
            whole.material.objective.loss(whole.predict(model, output, self._fold(model, read)), target).backward()
            if whole.context.settings.clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), whole.context.settings.clip)
            optimizer.step()

    def _output(self, model: SnapshotModel, last: int, states: LayerStates) -> tuple[Tensor, LayerStates]:
        """Output of a snapshot, of its fold's rows [R, H], and the states after it. states: before it, of a running state."""
        fold = self._fold(model, last)
        if self._running:
            states = self._whole.grow(model, states, self._fold(model, last - 1), fold) if last else states
            return self._whole.run_layers(model, last, states, fold)
        states = self._zero(model)
        for t in self._group(last):
            output, states = self._whole.run_layers(model, t, states, fold)
        return output, states

    def _group(self, last: int) -> range:
        """Return the snapshots from which one is predicted: a group, or, with a running state, all up to `last`."""
        return range(0 if self._running else last - self._whole.hyper.group_size + 1, last + 1)

    def _fold(self, model: SnapshotModel, last: int) -> Fold:
        """Return the fold of the snapshots that end with `last`."""
        return self._whole.fold(model, self._group(last))

    @staticmethod
    def _zero(model: SnapshotModel) -> LayerStates:
        return [None] * model.shape.layers
