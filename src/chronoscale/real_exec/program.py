"""Program: binds (dataset, model, operation) to code. One rank's state while it trains on snapshot groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from chronoscale.cuda_ext import ops
from chronoscale.cuda_ext.graph import CSR
from chronoscale.real_exec.collective import Collective
from chronoscale.real_exec.material import Change, Full, Material
from chronoscale.real_exec.model import GcnBlock, SnapshotModel, State
from chronoscale.real_exec.reconstruct import reconstruct
from chronoscale.real_exec.task import Task, tasks_of
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.workload import Hyper


class Program(Protocol):
    """One rank's code for the rows of a schedule."""

    tasks: list[Task]
    collective: Collective

    def run(self, task: Task) -> None:
        """Execute one row."""
        ...

    def losses(self) -> dict[int, float]:
        """This rank's share of the loss of each iteration since the last call."""
        ...


@dataclass(slots=True)
class Shelf:
    """What the device holds of one snapshot."""

    form: Full | Change | None = None
    graph: CSR | None = None  # full adjacency, for layers above the first
    scale: Tensor | None = None
    aggregated: Tensor | None = None  # [R, F], rows as in `form`
    output: Tensor | None = None  # layer 1, [N, H], on the graph of its transformation
    leaf: Tensor | None = None  # the same values, cut off: where the recurrences of one or two groups leave their gradients


Seat = tuple[int, int]  # (unit, step)


@dataclass(slots=True)
class Plan:
    """What a rank's rows imply and no single row says."""

    owned: set[Seat] = field(default_factory=set)  # transferred
    changes: set[Seat] = field(default_factory=set)  # of these, as difference maps
    features: set[Seat] = field(default_factory=set)  # of these, with the input features
    seat: dict[Seat, Seat] = field(default_factory=dict)  # where a snapshot lies: its own seat, or that of the group it is shared with
    frees: dict[int, list[Seat]] = field(default_factory=dict)  # unit -> seats that its end leaves without a user
    groups: Mapping[int, int] = field(default_factory=dict)  # iteration -> groups over all ranks: the loss is their mean


class SnapshotProgram:
    """Executes the rows of one rank for GCN-based models (`psg` and the REAL strategies).

    Layer-1 outputs are cut from the recurrence: a group's backward pass stops at the leaves, and the last group that uses a snapshot
    carries the summed gradients through its transformation, once. Losses are means over the groups of an iteration, on whichever ranks
    they run, so that placement does not change the mathematics.
    """

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        material: Material,
        model: SnapshotModel,
        hyper: Hyper,
        device: torch.device,
        collective: Collective,
        learning_rate: float = 0.01,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        self.tasks = tasks_of(schedule, rank)
        self.material, self.model, self.hyper, self.device, self.collective = material, model.to(device), hyper, device, collective
        self.optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=learning_rate)
        self.plan = _plan(self.tasks, schedule, hyper)
        self._loss: dict[int, list[Tensor]] = defaultdict(list)
        self._features: Tensor | None = None
        self._sums: Tensor | None = None
        self._shelf: dict[Seat, Shelf] = {}
        self._state: dict[int, State] = {}
        self._hidden: dict[tuple[int, int], Tensor] = {}
        self._upper: Tensor | None = None
        self._run: Mapping[Op, Callable[[Task], None]] = {
            Op.H2D: self._h2d,
            Op.AGGREGATE: self._aggregate,
            Op.INCREMENT: self._increment,
            Op.RECONSTRUCT: self._reconstruct,
            Op.TRANSFORM: self._transform,
            Op.TEMPORAL: self._temporal,
            Op.BACKWARD: self._backward,
            Op.ALLREDUCE: self._allreduce,
            Op.OPTIMIZE: self._optimize,
        }
        units = {t.unit for t in self.tasks if t.op is Op.BACKWARD}
        changes = {self._snapshot(*seat) for seat in self.plan.changes}
        full = {self._snapshot(*seat) for seat in self.plan.owned - self.plan.changes}
        material.prepare(full, changes, {self._goal(u) for u in units})
        self._goals = {u: material.target(self._goal(u)).to(device) for u in units}
        self.plan.features = {(t.unit, t.step) for t in self.tasks if t.op is Op.H2D and t.bytes > self._source((t.unit, t.step)).nbytes}

    def run(self, task: Task) -> None:
        """Execute one row. Raises KeyError for an operation that snapshot groups do not have."""
        self._run[task.op](task)

    def losses(self) -> dict[int, float]:
        """This rank's share of the loss of each iteration since the last call; shares sum to the mean over groups."""
        shares = {iteration: float(torch.stack(parts).sum()) for iteration, parts in self._loss.items()}
        self._loss.clear()
        return shares

    def _snapshot(self, unit: int, step: int) -> int:
        return unit * self.hyper.stride + step

    def _goal(self, unit: int) -> int:
        return self._snapshot(unit, self.hyper.group_size - 1) + self.hyper.horizon

    def _at(self, task: Task, back: int = 0) -> Shelf:
        return self._shelf[self.plan.seat[task.unit, task.step - back]]

    def _source(self, seat: Seat) -> Full | Change:
        snapshot = self._snapshot(*seat)
        return self.material.change[snapshot] if seat in self.plan.changes else self.material.full[snapshot]

    def _uses(self, *tensors: Tensor | None) -> None:
        """Tell the allocator that this lane reads tensors made in another, so that their memory is not reused too early."""
        if self.device.type == "cuda":
            for tensor in tensors:
                if tensor is not None:
                    tensor.record_stream(torch.cuda.current_stream(self.device))

    def _h2d(self, task: Task) -> None:
        seat = (task.unit, task.step)
        arrived = self._source(seat).to(self.device)
        self._shelf[seat] = Shelf(form=arrived, scale=arrived.scale)
        if seat in self.plan.features:
            features = self.material.features
            self._features = features.clone() if self.device.type == "cpu" else features.to(self.device, non_blocking=True)

    def _aggregate(self, task: Task) -> None:
        shelf = self._at(task)
        if task.layer:
            assert shelf.graph is not None and shelf.scale is not None
            below = self._hidden[task.layer - 1, task.step]
            self._uses(below, shelf.scale, shelf.graph.indptr, shelf.graph.indices, shelf.graph.values)
            summed = ops.aggregate(shelf.graph, below)
            self._upper = summed * shelf.scale[:, None]
            return
        assert isinstance(shelf.form, Full) and self._features is not None
        shelf.graph = graph = shelf.form.graph
        self._uses(graph.indptr, graph.indices, graph.values, shelf.form.scale, self._features)
        with torch.no_grad():
            sums = ops.aggregate(shelf.graph, self._features)
            if self.plan.changes:
                self._sums, shelf.aggregated = sums, sums * shelf.form.scale[:, None]
            else:
                shelf.aggregated = sums.mul_(shelf.form.scale[:, None])
        following = (task.unit, task.step + 1)
        if (task.unit, task.step) in self.plan.features and (following in self.plan.features or task.step + 1 == self.hyper.group_size):
            self._features = None  # the next snapshot brings its own

    def _increment(self, task: Task) -> None:
        shelf = self._at(task)
        assert isinstance(shelf.form, Change) and self._sums is not None and self._features is not None
        delta = shelf.form.delta
        self._uses(delta.rows, delta.indptr, delta.indices, delta.values, shelf.form.scale, self._features)
        rows = delta.rows.long()
        with torch.no_grad():
            touched = ops.increment_(self._sums, shelf.form.delta, self._features)
            shelf.aggregated = touched.mul_(shelf.form.scale[rows, None])

    def _reconstruct(self, task: Task) -> None:
        before, shelf = self._at(task, back=1).graph, self._at(task)
        assert isinstance(shelf.form, Change) and before is not None
        shelf.graph = reconstruct(before, shelf.form.delta, self.hyper.variant)

    def _transform(self, task: Task) -> None:
        block = self.model.block(task.layer)
        assert isinstance(block, GcnBlock)
        if task.layer:
            assert self._upper is not None
            self._uses(self._upper)
            self._upper = block.transform(self._upper)
            return
        shelf = self._at(task)
        assert shelf.aggregated is not None
        self._uses(shelf.aggregated)
        shelf.output = block.transform(shelf.aggregated)
        if isinstance(shelf.form, Change):
            before = self._at(task, back=1).output
            assert before is not None
            self._uses(shelf.form.delta.rows)
            shelf.output = before.index_copy(0, shelf.form.delta.rows.long(), shelf.output)
        shelf.leaf = shelf.output.detach().requires_grad_()

    def _temporal(self, task: Task) -> None:
        z = self._upper if task.layer else self._at(task).leaf
        assert z is not None
        state: State = self.model.block(task.layer).step(z, None if task.step == 0 else self._state[task.layer])
        self._state[task.layer] = state
        self._hidden[task.layer, task.step] = state[0]

    def _backward(self, task: Task) -> None:
        last = self.hyper.group_size - 1
        final = self._hidden[self.model.shape.layers - 1, last]
        self._uses(final)
        predicted = self.model.readout(final).squeeze(-1)
        loss = torch.nn.functional.mse_loss(predicted, self._goals[task.unit]) / self.plan.groups[task.iteration]
        loss.backward()
        self._loss[task.iteration].append(loss.detach())
        self._state.clear()
        self._hidden.clear()
        used = [self._shelf.pop(seat) for seat in self.plan.frees[task.unit]]
        ends = [(s.output, s.leaf.grad) for s in used if s.output is not None and s.leaf is not None and s.leaf.grad is not None]
        if ends:
            torch.autograd.backward([output for output, _ in ends], [gradient for _, gradient in ends])

    def _allreduce(self, task: Task) -> None:
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.model.parameters()]
        flat = torch.cat([g.flatten() for g in gradients])
        self.collective.all_reduce(flat)
        offset = 0
        for parameter in self.model.parameters():
            parameter.grad = flat[offset : offset + parameter.numel()].view_as(parameter)
            offset += parameter.numel()

    def _optimize(self, task: Task) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class CollectiveProgram:
    """Executes schedules of collectives alone, to measure them."""

    def __init__(self, schedule: Schedule, rank: int, device: torch.device, collective: Collective) -> None:
        self.tasks, self.collective = tasks_of(schedule, rank), collective
        self._values = {task.bytes: torch.zeros(task.bytes // 4, device=device) for task in self.tasks}

    def run(self, task: Task) -> None:
        """All-reduce of `task.bytes` bytes of fp32."""
        self.collective.all_reduce(self._values[task.bytes])

    def losses(self) -> dict[int, float]:
        """Nothing is trained."""
        return {}


def _plan(tasks: list[Task], schedule: Schedule, hyper: Hyper) -> Plan:
    plan = Plan()
    plan.owned = {(t.unit, t.step) for t in tasks if t.op is Op.H2D}
    plan.changes = {(t.unit, t.step) for t in tasks if t.op is Op.INCREMENT}
    units = [t.unit for t in tasks if t.op is Op.BACKWARD]
    waiting: list[Seat] = []
    previous: int | None = None
    for unit, following in zip(units, [*units, None][1:], strict=True):
        for step in range(hyper.group_size):
            seat = (unit, step)
            if seat in plan.owned:
                plan.seat[seat] = seat
                waiting.append(seat)
            else:
                assert previous is not None
                plan.seat[seat] = plan.seat[previous, step + (unit - previous) * hyper.stride]
        if following is None or (following, 0) in plan.owned:
            plan.frees[unit], waiting = waiting, []
        else:
            plan.frees[unit] = []
        previous = unit
    backward = schedule.tasks(Op.BACKWARD)
    iterations, counts = np.unique(schedule.iteration[backward], return_counts=True)
    plan.groups = dict(zip(iterations.tolist(), counts.tolist(), strict=True))
    return plan
