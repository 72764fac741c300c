"""Advance: a layer of a model over one whole snapshot, nothing shared, cut or incremented: what is predicted where nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from chronoscale.cuda_ext import ops
from chronoscale.cuda_ext.attention import attention
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.model import Block, EvolvingBlock, GatBlock, SnapshotModel, State

States = list[State | None]  # of each layer; None before its first snapshot


def advance(block: Block, graph: Full, x: Tensor, state: State | None) -> tuple[Tensor, State]:
    """Outputs [N, H] of a layer and its state after the snapshot, from features [N, D] and the state before it."""
    if isinstance(block, GatBlock):
        z = block.transform(x)
        state = block.step(block.finish(attention(graph.graph, z, *block.scores(z)).output()), state)
        return state[0], state
    assert graph.scale is not None
    aggregated = ops.aggregate(graph.graph, x) * graph.scale[:, None]
    if isinstance(block, EvolvingBlock):
        state = block.evolve(state, x)
        return block.transform(aggregated, state), state
    state = block.step(block.transform(aggregated), state)
    return state[0], state


def through(model: SnapshotModel, graph: Full, x: Tensor, states: Sequence[State | None]) -> tuple[Tensor, States]:
    """Outputs [N, H] of all layers for a snapshot, and their states after it."""
    after: States = []
    for layer, state in enumerate(states):
        x, state = advance(model.block(layer), graph, x, state)
        after.append(state)
    return x, after
