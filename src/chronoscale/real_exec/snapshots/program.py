"""SnapshotProgram: executes one rank's rows of whole snapshot groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators import aggregation
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.graph_blocks import GraphBlocks
from chronoscale.real_exec.execution.losses import Losses, LossShare
from chronoscale.real_exec.execution.program import EpochResult
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.execution.transfers import acquire
from chronoscale.real_exec.snapshots.convolution import convolution_of
from chronoscale.real_exec.snapshots.device_state import (
    DeviceSnapshot,
    DeviceState,
    ResidencyPlan,
    SnapshotKey,
    acquire_edge_map,
    acquire_graph,
)
from chronoscale.real_exec.snapshots.folds import UNFOLDED
from chronoscale.real_exec.snapshots.material import Change, Full, SnapshotForm, SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.shared_rows import RowParts, SharedRecurrence
from chronoscale.real_exec.snapshots.trainer import Trainer
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.variants import TemporalVariant
from chronoscale.strategies.workload import Hyper


class _Iterations(GraphBlocks):
    """Graph blocks of one iteration each: it has its own snapshots, and its graph is of no use to another.

    Left out are the rows that end an iteration: all ranks take part in them, or the optimiser counts its steps on the host.
    """

    def __init__(self, notes: list[LossShare]) -> None:
        self.shares = notes

    def of(self, task: Task) -> int | None:
        return None if task.op in (Op.ALLREDUCE, Op.OPTIMIZE) else task.iteration

    def shape(self, rows: Sequence[Task]) -> int:
        return rows[0].iteration


class SnapshotProgram(Trainer):
    """A rank's program for strategies that place whole snapshot groups on ranks (`psg`, `blad`, REAL).

    Losses are means over the groups of an iteration, on whichever ranks they run, so that placement does not change the mathematics.
    """

    def __init__(
        self, schedule: Schedule, material: SnapshotMaterial, learner: Learner[SnapshotModel], hyper: Hyper, context: Context
    ) -> None:
        """Prepare what the schedule transfers; `learner` goes on from earlier schedules.

        Raises ValueError for transfers of other sizes than the snapshots have.
        """
        self.tasks = tasks_of(schedule, context.rank)
        self.device = context.device
        self.collective = context.collective
        self.material = material
        self.learner = learner
        self.model = learner.model
        self.hyper = hyper
        self.plan = plan = ResidencyPlan.of(self.tasks, schedule, hyper)
        self._folds = {unit: fold if fold.rows < material.num_nodes else UNFOLDED for unit, fold in plan.folds.items()}
        self.device_state = DeviceState(self.model, plan, hyper.group_size, hyper.variant)
        self.shares = True  # as `Full.to`
        self._losses = Losses()
        self._unfit = torch.zeros(1, dtype=torch.int32, device=self.device)  # 1: a change did not belong to its snapshot
        convolve = convolution_of(self.device_state)
        self._run: Mapping[Op, Callable[[Task], None]] = {
            Op.H2D: self._h2d,
            Op.RECONSTRUCT: self._rebuild,
            Op.COPY: self._copy,
            Op.AGGREGATE: lambda task: convolve.aggregate(self.device_state, task),
            Op.INCREMENT: lambda task: convolve.increment(self.device_state, task),
            Op.TRANSFORM: lambda task: convolve.transform(self.device_state, task),
            Op.TEMPORAL: lambda task: convolve.temporal(self.device_state, task),
            Op.BACKWARD: self._backward,
            Op.ALLREDUCE: lambda task: learner.all_reduce(),
            Op.OPTIMIZE: lambda task: learner.step(task.iteration, plan.groups[task.iteration]),
        }
        self._share_rows(schedule)
        goals = {t.unit: self._goals(t.unit) for t in self.tasks if t.op is Op.BACKWARD}
        material.prepare({self._form(key) for key in plan.owned}, {goal for of in goals.values() for goal in of})
        spread = {fold: material.spread(fold, self.device) for fold in set(self._folds.values())}
        self._spread = {unit: spread[fold] for unit, fold in self._folds.items()}
        self.epoch, self._drawn = 0, 0
        self._targets = {goal: material.target(goal).to(self.device) for goal in sorted({goal for of in goals.values() for goal in of})}
        for task in self.tasks:
            if task.op is Op.H2D:
                beyond = task.bytes - self._source(key := (task.unit, task.step)).nbytes - self._listed_bytes(key)
                if beyond not in (0, self._features(key).nbytes):
                    raise ValueError(f"schedule '{schedule.name}': task {task.task} is to move {beyond} bytes beyond its snapshot")
                if beyond:
                    plan.features.add(key)

    @property
    def graph_blocks(self) -> GraphBlocks:
        """Return each iteration up to its all-reduce as what a CUDA graph may hold: every epoch has the same."""
        return _Iterations(self._losses.shares)

    def begin(self) -> None:
        """Draw the values to predict where the epoch has its own, in place: a CUDA graph reads them."""
        if self.material.objective.redraws and self._drawn != self.epoch:
            for goal, target in self._targets.items():
                target.copy_(self.material.target(goal, self.epoch))
            self._drawn = self.epoch

    def run(self, task: Task) -> None:
        self._run[task.op](task)

    def check(self) -> None:
        """Check the numbers of a pass on this rank, and that changes fitted the snapshots they were applied to.

        Raises NonFiniteValue as `Learner.check`, and ValueError when a change did not belong to the snapshot before it.
        """
        if self._unfit.item():
            raise ValueError("a change does not belong to the snapshot that it was applied to: the material was prepared from other edges")
        self.learner.check()

    def inputs_finite(self, iteration: int) -> bool:
        """Return whether features and targets of this rank's snapshot groups in the iteration are finite."""
        units = {task.unit for task in self.tasks if task.op is Op.BACKWARD and task.iteration == iteration}
        read = [self._features(key) for key in self.plan.features if key[0] in units]
        read += [target for unit in units for target in self._targets_of(unit)]
        return all(bool(values.isfinite().all()) for values in read)

    def finish(self) -> EpochResult:
        self.epoch += 1
        return EpochResult(self._losses.finish())

    def _share_rows(self, schedule: Schedule) -> None:
        """Part the rows of groups that share some. Raises ValueError for other numbers of rows than the schedule has."""
        first = {t.unit: t.task for t in self.tasks if t.op is Op.TEMPORAL and t.layer == 0 and t.step == 0}
        for chain in self.plan.chains:
            steps = [first[unit] for unit in chain if unit in first]
            if not steps or schedule.variant[steps[0]] != TemporalVariant.LASTING_FIRST:
                continue
            last = (chain[-1] - chain[0]) * self.hyper.stride + self.hyper.group_size
            parts = RowParts.of(self.material.lasting(self._number((chain[0], 0)), last), self.material.pins)
            if wrong := [step for step in steps[1:] if schedule.rows[step] != len(parts.rest)]:
                raise ValueError(
                    f"schedule '{schedule.name}': task {wrong[0]} is to compute other rows than the {len(parts.rest)} that change"
                )
            shared = SharedRecurrence(chain, parts, self.device, parted=not self.model.shape.transforms_first)
            self.device_state.shared |= dict.fromkeys(chain, shared)

    def _listed_bytes(self, key: SnapshotKey) -> int:
        """Return the bytes of lists of rows that come with a snapshot, the first one of groups that share rows."""
        shared = self.device_state.shared.get(key[0])
        return shared.listed.nbytes if shared and key == (shared.units[0], 0) else 0

    def _targets_of(self, unit: int) -> list[Tensor]:
        """Return the values that a group predicts, on the device."""
        return [self._targets[goal] for goal in self._goals(unit)]

    def _goals(self, unit: int) -> list[int]:
        """Return the snapshots that a group predicts: one for each of its own, or one for the last."""
        start, size = unit * self.hyper.stride, self.hyper.group_size
        steps = range(size) if self.model.shape.predicts_each else (size - 1,)
        return [start + step + self.hyper.horizon for step in steps]

    def _form(self, key: SnapshotKey) -> SnapshotForm:
        incremented = key in self.plan.incremented and not self.model.shape.transforms_first
        return SnapshotForm(self._number(key), incremented, key in self.plan.rebuilt, self._folds[key[0]])

    def _features(self, key: SnapshotKey) -> Tensor:
        return self.material.features(self._number(key), self._folds[key[0]])

    def _number(self, key: SnapshotKey) -> int:
        """Return a snapshot's number in the sequence."""
        return key[0] * self.hyper.stride + key[1]

    def _source(self, key: SnapshotKey) -> Full | Change:
        return self.material.form(self._form(key))

    def _h2d(self, task: Task) -> None:
        key = (task.unit, task.step)
        source = self._source(key)
        arrived = source.to(self.device, self.shares) if isinstance(source, Full) else source.to(self.device)
        graph = arrived.graph if isinstance(arrived, Full) else None
        self.device_state.snapshots[key] = DeviceSnapshot(form=arrived, graph=graph, scale=arrived.scale)
        if self._listed_bytes(key):
            self.device_state.shared[task.unit].bring_lists()
        if key in self.plan.features:
            features = self._features(key)
            self.device_state.features[key] = features.clone() if self.device.type == "cpu" else features.to(self.device, non_blocking=True)

    def _rebuild(self, task: Task) -> None:
        before, snapshot = self.device_state.at(task, back=1).graph, self.device_state.at(task)
        assert isinstance(snapshot.form, Change) and snapshot.form.edges is not None and before is not None
        weighted = not self.model.shape.transforms_first
        edges = acquire_edge_map(snapshot.form.edges)
        snapshot.graph, snapshot.scale = aggregation.rebuild(acquire_graph(before), edges, self.hyper.variant, weighted, unfit=self._unfit)

    def _copy(self, task: Task) -> None:
        """Copy a snapshot's results from stage to stage of a pipeline; on one rank both stages are this process."""
        if task.layer:
            pending = self.device_state.pending
            self.device_state.pending = acquire(pending).clone() if isinstance(pending, Tensor) else pending
            return
        snapshot = self.device_state.at(task)
        if snapshot.leaf is not None:
            snapshot.leaf = acquire(snapshot.leaf.detach()).clone().requires_grad_()
        elif snapshot.aggregated is not None:
            snapshot.aggregated = acquire(snapshot.aggregated).clone()

    def _backward(self, task: Task) -> None:
        device_state = self.device_state
        last = self.hyper.group_size - 1
        top = self.model.shape.layers - 1
        steps = range(last + 1) if self.model.shape.predicts_each else (last,)
        outputs = [acquire(device_state.hidden[task.unit, top, step]) for step in steps]
        objective, targets = self.material.objective, self._targets_of(task.unit)
        shared = device_state.shared.get(task.unit)
        rows = shared.parts if shared and top == 0 else self._spread[task.unit]
        errors = [self.model.loss(output, target, objective, rows) for output, target in zip(outputs, targets, strict=True)]
        loss = torch.stack(errors).mean() / self.plan.groups[task.iteration]
        back = shared.returned_gradients(task.unit) if shared else []
        torch.autograd.backward([loss, *(output for output, _ in back)], [None, *(gradient for _, gradient in back)])
        self._losses.add(task.iteration, loss)
        device_state.forget(task.unit)
        gone = [device_state.snapshots.pop(key) for key in self.plan.frees[task.unit]]
        for key in self.plan.frees[task.unit]:
            device_state.features.pop(key, None)
        ends = [(s.output, s.leaf.grad) for s in gone if s.output is not None and s.leaf is not None and s.leaf.grad is not None]
        if ends:
            torch.autograd.backward([output for output, _ in ends], [gradient for _, gradient in ends])
