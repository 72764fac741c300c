"""Advance: a layer of a model over one whole snapshot, nothing shared, cut or incremented: what is predicted where nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from chronoscale.cuda_ext.operators import aggregation
from chronoscale.cuda_ext.operators.attention import attention
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.snapshots.material import Full, Material, Wanted
from chronoscale.real_exec.snapshots.model import Block, EvolvingBlock, GatBlock, GcnBlock, SnapshotModel, State
from chronoscale.strategies.workload import Hyper

States = list[State | None]  # of each layer; None before its first snapshot


def advance(block: Block, graph: Full, x: Tensor, state: State | None) -> tuple[Tensor, State | None]:
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


def through(model: SnapshotModel, graph: Full, x: Tensor, states: Sequence[State | None]) -> tuple[Tensor, States]:
    """Outputs [N, H] of all layers for a snapshot, and their states after it."""
    after: States = []
    for layer, state in enumerate(states):
        x, state = advance(model.block(layer), graph, x, state)
        after.append(state)
    return x, after


class WholeGraphs:
    """Snapshots of a sequence, whole, on the device."""

    def __init__(self, material: Material, hyper: Hyper, context: Context) -> None:
        self.material, self.hyper, self.context = material, hyper, context

    def through(self, model: SnapshotModel, t: int, states: States) -> tuple[Tensor, States]:
        """As `advance.through`."""
        found = self.material.form(Wanted(t))
        assert isinstance(found, Full)
        graph = found if self.context.device.type == "cpu" else found.to(self.context.device)
        return through(model, graph, self.material.features(t).to(self.context.device), states)

    def sums(self, model: SnapshotModel, output: Tensor, goal: int) -> Tensor:
        """As `Objective.sums`."""
        return self.material.objective.sums(model.readout(output), self.material.target(goal).to(self.context.device))

    def told(self, sums: Tensor) -> Mapping[str, float]:
        """Scores of what all ranks have summed."""
        self.context.collective.all_reduce(sums)
        return self.material.objective.scores(sums)
