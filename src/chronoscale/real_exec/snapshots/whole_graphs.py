"""Whole graphs: a model's prediction over whole snapshots, without sharing, cuts or increments, where nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators import aggregation
from chronoscale.cuda_ext.operators.attention import attention
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.snapshots.material import Full, SnapshotForm, SnapshotMaterial
from chronoscale.real_exec.snapshots.model import Block, EvolvingBlock, GatBlock, GcnBlock, SnapshotModel, State
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

    def run_layers(self, model: SnapshotModel, t: int, states: LayerStates) -> tuple[Tensor, LayerStates]:
        """Evaluate all layers of a model on snapshot number `t`: return outputs [N, H], and the layers' states after it."""
        form = self.material.form(SnapshotForm(t))
        assert isinstance(form, Full)
        graph = form if self.context.device.type == "cpu" else form.to(self.context.device)
        return run_layers(model, graph, self.material.features(t).to(self.context.device), states)

    def sums(self, model: SnapshotModel, output: Tensor, goal: int) -> Tensor:
        """Return the sums from which predictions of snapshot number `goal`, read out of outputs [N, H], are scored (`Objective.sums`)."""
        return self.material.objective.sums(model.readout(output), self.material.truth(goal).to(self.context.device))

    def no_sums(self) -> Tensor:
        """Return the sums over no predictions, zeros on the rank's device, to add others to."""
        return torch.zeros(self.material.objective.terms, dtype=torch.float64, device=self.context.device)

    def reduce_scores(self, sums: Tensor) -> Mapping[str, float]:
        """Sum over all ranks what scores are made of (`Objective.sums`), and return the scores by key. Called on every rank."""
        self.context.collective.all_reduce(sums)
        return self.material.objective.scores(sums)
