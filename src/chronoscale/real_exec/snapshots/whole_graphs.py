"""Whole graphs: a model's prediction over whole snapshots, without sharing, cuts or increments, where nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from chronoscale.cuda_ext.operators import aggregation
from chronoscale.cuda_ext.operators.attention import attention
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.snapshots.material import Full, SnapshotForm, SnapshotMaterial
from chronoscale.real_exec.snapshots.model import Block, EvolvingBlock, GatBlock, GcnBlock, SnapshotModel, State
from chronoscale.strategies.workload import Hyper

LayerStates = list[State | None]  # of each layer; None before its first snapshot


def run_layer(block: Block, graph: Full, x: Tensor, state: State | None) -> tuple[Tensor, State | None]:
    """Run one layer on a snapshot: features [N, D] and the state before it to outputs [N, H] and the state after it (None: no
    recurrence)."""
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
    """Run all layers on a snapshot: return outputs [N, H], and their states after it."""
    after: LayerStates = []
    for layer, state in enumerate(states):
        x, state = run_layer(model.block(layer), graph, x, state)
        after.append(state)
    return x, after


class WholeGraphs:
    """Whole snapshots of a sequence, on the device, for evaluation."""

    def __init__(self, material: SnapshotMaterial, hyper: Hyper, context: Context) -> None:
        self.material = material
        self.hyper = hyper
        self.context = context

    def run_layers(self, model: SnapshotModel, t: int, states: LayerStates) -> tuple[Tensor, LayerStates]:
        """Run all layers on snapshot `t`: return outputs [N, H], and the states after it."""
        form = self.material.form(SnapshotForm(t))
        assert isinstance(form, Full)
        graph = form if self.context.device.type == "cpu" else form.to(self.context.device)
        return run_layers(model, graph, self.material.features(t).to(self.context.device), states)

    def sums(self, model: SnapshotModel, output: Tensor, goal: int) -> Tensor:
        """Return the sums that scores of predicting snapshot `goal` are made of (`Objective.sums`)."""
        return self.material.objective.sums(model.readout(output), self.material.target(goal).to(self.context.device))

    def reduce_scores(self, sums: Tensor) -> Mapping[str, float]:
        """Sum over all ranks, and return the scores."""
        self.context.collective.all_reduce(sums)
        return self.material.objective.scores(sums)
