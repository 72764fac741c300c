"""Whole graphs: a model's prediction over whole snapshots, without sharing, cuts or increments, where nothing is trained."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from chronoscale.cuda_ext.operators import aggregation
from chronoscale.cuda_ext.operators.attention import attention
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.snapshots.folds import UNFOLDED, Fold
from chronoscale.real_exec.snapshots.material import Full, SnapshotForm, SnapshotMaterial
from chronoscale.real_exec.snapshots.model import Block, EvolvingBlock, GatBlock, GcnBlock, SnapshotModel, State
from chronoscale.records import write_atomically
from chronoscale.strategies.snapshots.folding import idle_rows
from chronoscale.strategies.workload import Hyper

LayerStates = list[State | None]  # of each layer; None before its first snapshot


def run_layer(block: Block, graph: Full, x: Tensor, state: State | None) -> tuple[Tensor, State | None]:
    """Evaluate one layer of a model on a whole snapshot, without incremental reuse: return outputs [N, H] and the state after it (None: no
    recurrence).

    x: features [N, D]. state: before the snapshot, None for zero.
    """
    if isinstance(block, GatBlock):
        z = block.transform(x)
        return _recur(block, block.finish(attention(graph.graph, z, *block.scores(z)).output()), state)
    assert graph.scale is not None
    aggregated = aggregation.aggregate(graph.graph, x) * graph.scale[:, None]
    if isinstance(block, EvolvingBlock):
        state = block.evolve(state, x)
        return block.transform(aggregated, state), state
    return _recur(block, block.transform(aggregated), state)


def _recur(block: GcnBlock | GatBlock, z: Tensor, state: State | None) -> tuple[Tensor, State | None]:
    """Apply a layer's recurrence to its representations, if it has one."""
    if block.step is None:
        return z, None
    after = block.step(z, state)
    return block.step.output(after), after


def run_layers(model: SnapshotModel, graph: Full, x: Tensor, states: Sequence[State | None]) -> tuple[Tensor, LayerStates]:
    """Evaluate all layers of a model on a whole snapshot: return outputs [N, H] and the layers' states after it.

    x: features [N, D]. states: of the layers before the snapshot, None for zero.
    """
    after: LayerStates = []
    for layer, state in enumerate(states):
        x, state = run_layer(model.block(layer), graph, x, state)
        after.append(state)
    return x, after


class WholeGraphs:
    """Whole snapshots on a rank's device, for evaluation of a model, where nothing is shared, cut or incremented."""

    def __init__(self, material: SnapshotMaterial, hyper: Hyper, context: Context) -> None:
        self.material = material
        self.hyper = hyper
        self.context = context
        self.predictions_folder: Path | None = None

    def fold(self, model: SnapshotModel, group: range) -> Fold:
        """Return on which rows consecutive snapshots are evaluated from the zero state: nodes without edges in all of them are one row,
        where their features are alike.
        """
        return self.material.fold(group.start, len(group), idle_rows(model.shape))

    def run_layers(self, model: SnapshotModel, t: int, states: LayerStates, fold: Fold = UNFOLDED) -> tuple[Tensor, LayerStates]:
        """Evaluate all layers of a model on snapshot number `t`: return outputs [N, H], and the layers' states after it; of a row for each
        node, or of a fold's rows.
        """
        form = self.material.form(SnapshotForm(t, fold=fold))
        assert isinstance(form, Full)
        graph = form if self.context.device.type == "cpu" else form.to(self.context.device)
        return run_layers(model, graph, self.material.features(t, fold).to(self.context.device), states)

    def grow(self, model: SnapshotModel, states: LayerStates, before: Fold, after: Fold) -> LayerStates:
        """Return states on the rows of a fold from those of a fold of fewer snapshots: a node that had no edge in these has the state of
        all such nodes. Evolving weights are no rows, and stay as they are.
        """
        if before == after or model.shape.evolves_weights or all(state is None for state in states):
            return states
        rows = self.material.rows_before(before, after).to(self.context.device)
        return [None if state is None else (state[0].index_select(0, rows), state[1].index_select(0, rows)) for state in states]

    def predict(self, model: SnapshotModel, output: Tensor, fold: Fold = UNFOLDED) -> Tensor:
        """Return the predictions of all nodes, [N, outputs], from outputs of a fold's rows."""
        return model.predict(output, self.material.spread(fold, self.context.device))

    def sums(self, model: SnapshotModel, output: Tensor, goal: int, fold: Fold = UNFOLDED) -> Tensor:
        """Return the sums from which predictions of snapshot number `goal`, read out of outputs [N, H] or of a fold's rows, are scored
        (`Objective.sums`). Where `predictions_folder` is set, they are written there (`Objective.prediction_record`), a file a snapshot.
        """
        predicted, truth = self.predict(model, output, fold), self.material.truth(goal).to(self.context.device)
        if self.predictions_folder is not None:
            content = io.BytesIO()
            np.save(content, self.material.objective.prediction_record(predicted, truth))
            write_atomically(self.predictions_folder / f"{goal:06d}.{self.context.rank}.npy", content.getvalue())
        return self.material.objective.sums(predicted, truth)

    def no_sums(self) -> Tensor:
        """Return the sums over no predictions, zeros on the rank's device, to add others to."""
        return torch.zeros(self.material.objective.terms, dtype=torch.float64, device=self.context.device)

    def reduce_scores(self, sums: Tensor) -> Mapping[str, float]:
        """Sum over all ranks what scores are made of (`Objective.sums`), and return the scores by key. Called on every rank."""
        self.context.collective.all_reduce(sums)
        return self.material.objective.scores(sums)
