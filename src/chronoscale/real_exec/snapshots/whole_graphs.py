"""Advance: a layer of a model over one whole snapshot, nothing shared, cut or incremented: what is predicted where nothing is trained."""

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
    """Outputs [N, H] of a layer and its state after the snapshot, if it has one, from features [N, D] and the state before it."""
    if isinstance(block, GatBlock):
        z = block.transform(x)
        return _recurred(block, block.finish(attention(graph.graph, z, *block.scores(z)).output()), state)
    assert graph.scale is not None
    aggregated = aggregation.aggregate(graph.graph, x) * graph.scale[:, None]
    if isinstance(block, EvolvingBlock):
        state = block.evolve(state, x)
        return block.transform(aggregated, state), state
    return _recurred(block, block.transform(aggregated), state)


def _recurred(block: GcnBlock | GatBlock, z: Tensor, state: State | None) -> tuple[Tensor, State | None]:
    """A layer without a recurrence hands on what it has."""
    if block.step is None:
        return z, None
    after = block.step(z, state)
    return block.step.output(after), after


def run_layers(model: SnapshotModel, graph: Full, x: Tensor, states: Sequence[State | None]) -> tuple[Tensor, LayerStates]:
    """Outputs [N, H] of all layers for a snapshot, and their states after it."""
    after: LayerStates = []
    for layer, state in enumerate(states):
        x, state = run_layer(model.block(layer), graph, x, state)
        after.append(state)
    return x, after


class WholeGraphs:
    """Snapshots of a sequence, whole, on the device."""

    def __init__(self, material: SnapshotMaterial, hyper: Hyper, context: Context) -> None:
        self.material, self.hyper, self.context = material, hyper, context

    def run_layers(self, model: SnapshotModel, t: int, states: LayerStates) -> tuple[Tensor, LayerStates]:
        """As `advance.through`."""
        found = self.material.form(SnapshotForm(t))
        assert isinstance(found, Full)
        graph = found if self.context.device.type == "cpu" else found.to(self.context.device)
        return run_layers(model, graph, self.material.features(t).to(self.context.device), states)

    def sums(self, model: SnapshotModel, output: Tensor, goal: int) -> Tensor:
        """As `Objective.sums`."""
        return self.material.objective.sums(model.readout(output), self.material.target(goal).to(self.context.device))

    def reduce_scores(self, sums: Tensor) -> Mapping[str, float]:
        """Scores of what all ranks have summed."""
        self.context.collective.all_reduce(sums)
        return self.material.objective.scores(sums)
