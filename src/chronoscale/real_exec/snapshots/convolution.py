"""Convolutions: what AGGREGATE, INCREMENT, TRANSFORM and TEMPORAL rows compute for each kind of model.

First-layer results depend on nothing that a group computes, so that groups with a common snapshot share them (REAL §4.2). They are cut from
the recurrence: a group's backward pass stops at the `leaf`, and the last group that uses a snapshot carries the summed gradients on.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators import aggregation
from chronoscale.cuda_ext.operators.attention import attention, attention_increment
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import acquire, record_use
from chronoscale.real_exec.snapshots.device_state import DeviceSnapshot, DeviceState, acquire_edge_map, acquire_graph
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.model import EvolvingBlock, GatBlock, GcnBlock


class Convolution(Protocol):
    """The rows of one kind of model, on a rank's device state."""

    def aggregate(self, board: DeviceState, task: Task) -> None:
        """Aggregate over all rows of a snapshot."""
        ...

    def increment(self, board: DeviceState, task: Task) -> None:
        """Aggregate anew only the rows that a snapshot's change touches."""
        ...

    def transform(self, board: DeviceState, task: Task) -> None:
        """Apply the layer's weights."""
        ...

    def temporal(self, board: DeviceState, task: Task) -> None:
        """Take one step of the recurrence."""
        ...


def convolution_of(board: DeviceState) -> Convolution:
    """Return the convolution of the model that a device state is of."""
    shape = board.model.shape
    return EvolvingConvolution() if shape.evolves_weights else GatConvolution() if shape.transforms_first else GcnConvolution()


def _sum(shelf: DeviceSnapshot, x: Tensor) -> Tensor:
    """Return unnormalised neighbour sums [N, F]."""
    assert shelf.graph is not None
    return aggregation.aggregate(acquire_graph(shelf.graph), x)


def _scale(shelf: DeviceSnapshot) -> Tensor:
    assert shelf.scale is not None
    return acquire(shelf.scale)[:, None]


def _increment(board: DeviceState, task: Task) -> tuple[Tensor, Tensor]:
    """Update the sums of touched rows by a snapshot's change (REAL eq. 3); return these rows [R] and their normalised sums [R, F]."""
    shelf, x = board.at(task), board.inputs(task)
    assert not isinstance(shelf.form, Full) and shelf.form.delta is not None
    assert shelf.scale is not None and board.sums is not None
    delta = shelf.form.delta
    record_use(delta.rows, delta.indptr, delta.indices, delta.values, delta.fresh, shelf.scale)
    rows = delta.rows.long()
    return rows, aggregation.increment_(board.sums, delta, x).mul_(shelf.scale[rows, None])


def _first(board: DeviceState, task: Task) -> None:
    """Sum and normalise input features; no gradient."""
    shelf = board.at(task)
    with torch.no_grad():
        sums = _sum(shelf, board.inputs(task))
        if board.plan.incremented:
            board.sums, shelf.aggregated = sums, sums * _scale(shelf)
        else:
            shelf.aggregated = sums.mul_(_scale(shelf))


class GcnConvolution:
    """GCN with fixed weights: increments touch some rows, and only those are transformed again (REAL §4.1.2, case 2)."""

    def aggregate(self, board: DeviceState, task: Task) -> None:
        """Compute normalised sums of all rows."""
        if task.layer:
            shelf = board.at(task)
            board.pending = _sum(shelf, board.below(task)) * _scale(shelf)
            return
        _first(board, task)
        board.read_inputs(task)

    def increment(self, board: DeviceState, task: Task) -> None:
        """Compute normalised sums of the touched rows."""
        shelf = board.at(task)
        with torch.no_grad():
            _, shelf.aggregated = _increment(board, task)

    def transform(self, board: DeviceState, task: Task) -> None:
        """Compute representations [N, H] of the touched rows; the others are those of the snapshot before."""
        block = board.model.block(task.layer)
        assert isinstance(block, GcnBlock)
        if task.layer:
            assert isinstance(board.pending, Tensor)
            board.pending = block.transform(acquire(board.pending))
            board.hand_on(task)
            return
        shelf = board.at(task)
        assert shelf.aggregated is not None
        output = block.transform(acquire(shelf.aggregated))
        if (task.unit, task.step) in board.plan.incremented:
            before = board.at(task, back=1).output
            assert before is not None and not isinstance(shelf.form, Full) and shelf.form.delta is not None
            output = before.index_copy(0, acquire(shelf.form.delta.rows).long(), output)
        shelf.output, shelf.leaf = output, output.detach().requires_grad_()

    def temporal(self, board: DeviceState, task: Task) -> None:
        """Take one step of the recurrence on all nodes."""
        block = board.model.block(task.layer)
        assert not isinstance(block, EvolvingBlock) and block.step is not None
        z = board.pending if task.layer else board.at(task).leaf
        assert isinstance(z, Tensor)
        state = block.step(acquire(z), None if task.step == 0 else board.state[task.unit, task.layer])
        board.state[task.unit, task.layer] = state
        board.hidden[task.unit, task.layer, task.step] = block.step.output(state)


class GatConvolution(GcnConvolution):
    """GAT: features are transformed once a group (REAL §4.1.2, case 1), sums of weighted neighbours incremented (eq. 5-8)."""

    def transform(self, board: DeviceState, task: Task) -> None:
        """Transform features, and compute their scores."""
        block = board.model.block(task.layer)
        assert isinstance(block, GatBlock)
        z = block.transform(board.below(task) if task.layer else board.inputs(task))
        scored = (z, *block.scores(z))
        if task.layer:
            board.pending = scored
            return
        board.projected = scored
        board.read_inputs(task)

    def aggregate(self, board: DeviceState, task: Task) -> None:
        """Compute attention over all rows."""
        block, shelf = board.model.block(task.layer), board.at(task)
        assert isinstance(block, GatBlock) and shelf.graph is not None
        scored = board.pending if task.layer else board.projected
        assert isinstance(scored, tuple)
        z, left, right = (acquire(part) for part in scored)
        state = attention(acquire_graph(shelf.graph), z, left, right)
        output = block.finish(state.output())
        if task.layer:
            board.pending = output
            board.hand_on(task)
            return
        shelf.attention = state
        shelf.output = output
        shelf.leaf = output.detach().requires_grad_()

    def increment(self, board: DeviceState, task: Task) -> None:
        """Compute attention over the rows that a change touches; the others are those of the snapshot before."""
        block = board.model.block(task.layer)
        shelf = board.at(task)
        before = board.at(task, back=1)
        assert isinstance(block, GatBlock) and not isinstance(shelf.form, Full) and shelf.form.edges is not None
        assert shelf.graph is not None and before.attention is not None and before.output is not None and board.projected is not None
        change, graph = acquire_edge_map(shelf.form.edges), acquire_graph(shelf.graph)
        z, left, right = (acquire(part) for part in board.projected)
        shelf.attention, touched = attention_increment(before.attention, graph, change, z, left, right, variant=board.variant)
        output = before.output.index_copy(0, change.rows.long(), block.finish(touched))
        shelf.output, shelf.leaf = output, output.detach().requires_grad_()


class EvolvingConvolution:
    """EvolveGCN: sums of the first layer are shared and incremented; weights differ from step to step, so that every group
    transforms anew."""

    def aggregate(self, board: DeviceState, task: Task) -> None:
        """Compute normalised sums of all rows."""
        if task.layer:
            shelf = board.at(task)
            board.pending = _sum(shelf, board.below(task)) * _scale(shelf)
        else:
            _first(board, task)

    def increment(self, board: DeviceState, task: Task) -> None:
        """Compute normalised sums of the touched rows; the others are those of the snapshot before."""
        shelf, before = board.at(task), board.at(task, back=1).aggregated
        assert before is not None
        with torch.no_grad():
            shelf.aggregated = before.index_copy(0, *_increment(board, task))

    def temporal(self, board: DeviceState, task: Task) -> None:
        """Evolve the weights to this snapshot's."""
        block = board.model.block(task.layer)
        assert isinstance(block, EvolvingBlock)
        x = None
        if block.scorer is not None:
            x = board.below(task) if task.layer else board.inputs(task)
        board.state[task.unit, task.layer] = block.evolve(None if task.step == 0 else board.state[task.unit, task.layer], x)

    def transform(self, board: DeviceState, task: Task) -> None:
        """Compute outputs [N, H] with this snapshot's weights."""
        block = board.model.block(task.layer)
        assert isinstance(block, EvolvingBlock)
        aggregated = board.pending if task.layer else board.at(task).aggregated
        assert isinstance(aggregated, Tensor)
        output = block.transform(acquire(aggregated), board.state[task.unit, task.layer])
        board.hidden[task.unit, task.layer, task.step] = output
        if task.layer == 0:
            board.read_inputs(task)
