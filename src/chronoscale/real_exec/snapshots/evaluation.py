"""Evaluation: how good a model is on snapshots that are held out, told the same on all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from chronoscale.real_exec.context import Context
from chronoscale.real_exec.snapshots.advance import States, through
from chronoscale.real_exec.snapshots.material import Full, Material, Wanted
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.strategies.workload import Hyper


class Evaluation(Protocol):
    """A subclass predicts as the kind of schedule does that the model is trained by."""

    def scores(self, model: SnapshotModel, part: range) -> Mapping[str, float]:
        """By key, of what is predicted of the snapshots `part`; nothing is trained. Called on every rank."""
        ...


class GroupEvaluation(Evaluation):
    """Each snapshot is predicted from the group that ends `horizon` before it, from the zero state, on whole graphs; where every snapshot
    of a group has a prediction, from the last one's. Snapshots are dealt to ranks in turn."""

    def __init__(self, material: Material, hyper: Hyper, context: Context) -> None:
        self._material, self._hyper, self._context = material, hyper, context

    @torch.no_grad()
    def scores(self, model: SnapshotModel, part: range) -> Mapping[str, float]:
        """As `Evaluation.scores`."""
        training, aim = model.training, self._material.objective
        model.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=self._context.device)
        for goal in part[self._context.rank :: self._context.ranks]:
            predicted = model.readout(self._output(model, goal - self._hyper.horizon))
            sums += aim.sums(predicted, self._material.target(goal).to(self._context.device))
        model.train(training)
        self._context.collective.all_reduce(sums)
        return aim.scores(sums)

    def _output(self, model: SnapshotModel, last: int) -> Tensor:
        """Of the last snapshot of a group, [N, H]."""
        group = range(last - self._hyper.group_size + 1, last + 1)
        self._material.prepare((Wanted(t) for t in group), [last + self._hyper.horizon])
        states: States = [None] * model.shape.layers
        for t in group:
            output, states = through(model, self._graph(t), self._material.features(t).to(self._context.device), states)
        return output

    def _graph(self, t: int) -> Full:
        found = self._material.form(Wanted(t))
        assert isinstance(found, Full)
        return found if self._context.device.type == "cpu" else found.to(self._context.device)
