"""Convolutions: what AGGREGATE, INCREMENT, TRANSFORM and TEMPORAL rows compute for each kind of model.

First-layer results depend on nothing that a group computes, so that groups with a common snapshot share them (REAL §4.2). They are cut from
the recurrence: a group's backward pass stops at the `leaf`, and the last gradient pass that uses a snapshot carries the summed ones on.
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
    """What one rank computes in the rows of snapshot groups, for one kind of model (GCN, GAT, EvolveGCN), on its device state."""

    def aggregate(self, device_state: DeviceState, task: Task) -> None:
        """Aggregate neighbours for all nodes of a row's snapshot, in full (AGGREGATE)."""
        ...

    def increment(self, device_state: DeviceState, task: Task) -> None:
        """Aggregate again only the nodes that a snapshot's change from the one before touches (INCREMENT, REAL §4.1)."""
        ...

    def transform(self, device_state: DeviceState, task: Task) -> None:
        """Apply the layer's weights to a row's snapshot (TRANSFORM)."""
        ...

    def temporal(self, device_state: DeviceState, task: Task) -> None:
        """Take one step of the model's recurrence, to a row's snapshot (TEMPORAL)."""
        ...


def convolution_of(device_state: DeviceState) -> Convolution:
    """Return what computes the rows of snapshot groups on this rank for the device state's model: GCN, GAT or EvolveGCN."""
    shape = device_state.model.shape
    return EvolvingConvolution() if shape.evolves_weights else GatConvolution() if shape.transforms_first else GcnConvolution()


def _sum(snapshot: DeviceSnapshot, x: Tensor) -> Tensor:
    """Return unnormalised neighbour sums [N, F]."""
    assert snapshot.graph is not None
    return aggregation.aggregate(acquire_graph(snapshot.graph), x)


def _scale(snapshot: DeviceSnapshot) -> Tensor:
    assert snapshot.scale is not None
    return acquire(snapshot.scale)[:, None]


def _increment(device_state: DeviceState, task: Task) -> tuple[Tensor, Tensor]:
    """Update the sums of touched rows by a snapshot's change (REAL eq. 3); return these rows [R] and their normalised sums [R, F]."""
    snapshot, x = device_state.at(task), device_state.inputs(task)
    assert not isinstance(snapshot.form, Full) and snapshot.form.delta is not None
    assert snapshot.scale is not None and device_state.sums is not None
    delta = snapshot.form.delta
    record_use(delta.rows, delta.indptr, delta.indices, delta.values, delta.fresh, snapshot.scale)
    rows = delta.rows.long()
    return rows, aggregation.increment_(device_state.sums, delta, x).mul_(snapshot.scale[rows, None])


def _first(device_state: DeviceState, task: Task) -> None:
    """Sum and normalise input features; no gradient."""
    snapshot = device_state.at(task)
    with torch.no_grad():
        sums = _sum(snapshot, device_state.inputs(task))
        if device_state.plan.incremented:
            device_state.sums, snapshot.aggregated = sums, sums * _scale(snapshot)
        else:
            snapshot.aggregated = sums.mul_(_scale(snapshot))


class GcnConvolution:
    """Rows of snapshot groups for GCNs with fixed weights: changes touch some nodes, and only those are transformed again (REAL §4.1.2,
    case 2).
    """

    def aggregate(self, device_state: DeviceState, task: Task) -> None:
        """Compute normalised neighbour sums of all nodes of a row's snapshot."""
        if task.layer:
            snapshot = device_state.at(task)
            device_state.pending = _sum(snapshot, device_state.below(task)) * _scale(snapshot)
            return
        _first(device_state, task)
        device_state.read_inputs(task)

    def increment(self, device_state: DeviceState, task: Task) -> None:
        """Compute normalised neighbour sums of the nodes that a snapshot's change touches, from the snapshot before."""
        snapshot = device_state.at(task)
        with torch.no_grad():
            _, snapshot.aggregated = _increment(device_state, task)

    def transform(self, device_state: DeviceState, task: Task) -> None:
        """Compute a snapshot's representations [N, H]; where it was incremented, those of touched nodes, and the others are the snapshot
        before's. Where groups share rows, only those that their recurrence reads of it (`SharedRecurrence.rows_of`).
        """
        block = device_state.model.block(task.layer)
        assert isinstance(block, GcnBlock)
        if task.layer:
            assert isinstance(device_state.pending, Tensor)
            device_state.pending = block.transform(acquire(device_state.pending))
            device_state.hand_on(task)
            return
        snapshot = device_state.at(task)
        assert snapshot.aggregated is not None
        aggregated, shared = acquire(snapshot.aggregated), device_state.shared.get(task.unit)
        if (task.unit, task.step) in device_state.plan.incremented:
            before = device_state.at(task, back=1).output
            assert before is not None and not isinstance(snapshot.form, Full) and snapshot.form.delta is not None
            output, rows = block.transform(aggregated), acquire(snapshot.form.delta.rows).long()
            output = shared.put(before, rows, output) if shared else before.index_copy(0, rows, output)
        elif shared:
            output = block.transform(aggregated.index_select(0, shared.rows_of(task.unit, task.step)))
            snapshot.aggregated = None
        else:
            output = block.transform(aggregated)
        snapshot.output, snapshot.leaf = output, output.detach().requires_grad_()

    def temporal(self, device_state: DeviceState, task: Task) -> None:
        """Take one step of the recurrence, to a row's snapshot: on all nodes, or on the group's part where groups share rows."""
        block = device_state.model.block(task.layer)
        assert not isinstance(block, EvolvingBlock) and block.step is not None
        z = device_state.pending if task.layer else device_state.at(task).leaf
        assert isinstance(z, Tensor)
        if task.layer == 0 and (shared := device_state.shared.get(task.unit)) is not None:
            above, last = device_state.model.shape.layers > 1, task.step + 1 == device_state.group_size
            output = shared.step(block.step, task.unit, task.step, z, above or last)
            if output is not None:
                device_state.hidden[task.unit, 0, task.step] = output.index_select(0, shared.parts.place) if above else output
            return
        state = block.step(acquire(z), None if task.step == 0 else device_state.state[task.unit, task.layer])
        device_state.state[task.unit, task.layer] = state
        device_state.hidden[task.unit, task.layer, task.step] = block.step.output(state)


class GatConvolution(GcnConvolution):
    """Rows of snapshot groups for GATs: features are transformed once a group (REAL §4.1.2, case 1), sums of weighted neighbours
    incremented (eq. 5-8).
    """

    def transform(self, device_state: DeviceState, task: Task) -> None:
        """Transform the features that a GAT layer reads, and compute each node's attention scores."""
        block = device_state.model.block(task.layer)
        assert isinstance(block, GatBlock)
        z = block.transform(device_state.below(task) if task.layer else device_state.inputs(task))
        scored = (z, *block.scores(z))
        if task.layer:
            device_state.pending = scored
            return
        device_state.projected = scored
        device_state.read_inputs(task)

    def aggregate(self, device_state: DeviceState, task: Task) -> None:
        """Compute attention over neighbours for all nodes of a row's snapshot."""
        block, snapshot = device_state.model.block(task.layer), device_state.at(task)
        assert isinstance(block, GatBlock) and snapshot.graph is not None
        scored = device_state.pending if task.layer else device_state.projected
        assert isinstance(scored, tuple)
        z, left, right = (acquire(part) for part in scored)
        state = attention(acquire_graph(snapshot.graph), z, left, right)
        output = block.finish(state.output())
        if task.layer:
            device_state.pending = output
            device_state.hand_on(task)
            return
        snapshot.attention = state
        snapshot.output = output
        snapshot.leaf = output.detach().requires_grad_()

    def increment(self, device_state: DeviceState, task: Task) -> None:
        """Compute attention over neighbours for the nodes that a snapshot's change touches; the others' results are those of the snapshot
        before.
        """
        block = device_state.model.block(task.layer)
        snapshot = device_state.at(task)
        before = device_state.at(task, back=1)
        assert isinstance(block, GatBlock) and not isinstance(snapshot.form, Full) and snapshot.form.edges is not None
        assert (
            snapshot.graph is not None and before.attention is not None and before.output is not None and device_state.projected is not None
        )
        change, graph = acquire_edge_map(snapshot.form.edges), acquire_graph(snapshot.graph)
        z, left, right = (acquire(part) for part in device_state.projected)
        snapshot.attention, touched = attention_increment(before.attention, graph, change, z, left, right, variant=device_state.variant)
        output = before.output.index_copy(0, change.rows.long(), block.finish(touched))
        snapshot.output, snapshot.leaf = output, output.detach().requires_grad_()


class EvolvingConvolution:
    """Rows of snapshot groups for EvolveGCN: neighbour sums of the first layer are shared between groups and incremented.

    Weights differ from step to step, so that every group transforms for itself.
    """

    def aggregate(self, device_state: DeviceState, task: Task) -> None:
        """Compute normalised neighbour sums of all nodes of a row's snapshot."""
        if task.layer:
            snapshot = device_state.at(task)
            device_state.pending = _sum(snapshot, device_state.below(task)) * _scale(snapshot)
        else:
            _first(device_state, task)

    def increment(self, device_state: DeviceState, task: Task) -> None:
        """Compute normalised neighbour sums of the nodes that a snapshot's change touches; the others' are those of the snapshot before."""
        snapshot, before = device_state.at(task), device_state.at(task, back=1).aggregated
        assert before is not None
        with torch.no_grad():
            snapshot.aggregated = before.index_copy(0, *_increment(device_state, task))

    def temporal(self, device_state: DeviceState, task: Task) -> None:
        """Evolve a layer's weights to those of a row's snapshot."""
        block = device_state.model.block(task.layer)
        assert isinstance(block, EvolvingBlock)
        x = None
        if block.scorer is not None:
            x = device_state.below(task) if task.layer else device_state.inputs(task)
        device_state.state[task.unit, task.layer] = block.evolve(None if task.step == 0 else device_state.state[task.unit, task.layer], x)

    def transform(self, device_state: DeviceState, task: Task) -> None:
        """Compute a snapshot's outputs [N, H] with the weights evolved for it."""
        block = device_state.model.block(task.layer)
        assert isinstance(block, EvolvingBlock)
        aggregated = device_state.pending if task.layer else device_state.at(task).aggregated
        assert isinstance(aggregated, Tensor)
        output = block.transform(acquire(aggregated), device_state.state[task.unit, task.layer])
        device_state.hidden[task.unit, task.layer, task.step] = output
        if task.layer == 0:
            device_state.read_inputs(task)
