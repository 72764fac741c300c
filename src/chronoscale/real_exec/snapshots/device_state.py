"""Device state: what one rank's device holds while it trains on snapshot groups, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from torch import Tensor

from chronoscale.cuda_ext.operators.attention import AttentionState
from chronoscale.cuda_ext.operators.graph import CSR, EdgeMap
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import acquire, record_use
from chronoscale.real_exec.snapshots.folds import Fold
from chronoscale.real_exec.snapshots.material import Change, Full
from chronoscale.real_exec.snapshots.model import SnapshotModel, State
from chronoscale.real_exec.snapshots.shared_rows import SharedRecurrence
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.groups import groups_of
from chronoscale.strategies.workload import Hyper

SnapshotKey = tuple[int, int]  # (unit, step)
ScoredFeatures = tuple[Tensor, Tensor, Tensor]  # transformed features and their two scores, where attention follows


@dataclass(slots=True)
class DeviceSnapshot:
    """Tensors of one snapshot on one rank's device, while groups that use it train."""

    form: Full | Change
    graph: CSR | None = None  # the adjacency, where it is tracked
    scale: Tensor | None = None
    aggregated: Tensor | None = None  # normalised sums [R, F]: touched rows where they were incremented, else all
    attention: AttentionState | None = None
    output: Tensor | None = None  # layer 1, [N, H] or what groups that share rows read, on the graph of its transformation
    leaf: Tensor | None = None  # the same values, cut off: where the recurrences of one or two groups leave their gradients


@dataclass(slots=True)
class ResidencyPlan:
    """Plan of which snapshots one rank's device transfers, shares between groups and frees, which no single row says.

    A key is (unit, step): group and place in it.
    """

    owned: set[SnapshotKey] = field(default_factory=set)  # transferred
    incremented: set[SnapshotKey] = field(default_factory=set)
    rebuilt: set[SnapshotKey] = field(default_factory=set)
    features: set[SnapshotKey] = field(default_factory=set)  # transferred with the input features
    seat: dict[SnapshotKey, SnapshotKey] = field(
        default_factory=dict
    )  # where a snapshot lies: its own seat, or that of the group it is shared with
    chains: list[tuple[int, ...]] = field(default_factory=list)  # units that share snapshots, each with the one before
    frees: dict[int, Sequence[SnapshotKey]] = field(default_factory=dict)  # unit -> seats that its end leaves without a user
    folds: dict[int, Fold] = field(default_factory=dict)  # unit -> rows of its snapshots, the same in groups that share some
    groups: Mapping[int, int] = field(default_factory=dict)  # iteration -> groups over all ranks: the loss is their mean

    @classmethod
    def of(cls, tasks: list[Task], schedule: Schedule, hyper: Hyper) -> ResidencyPlan:
        """Derive from one rank's rows which snapshots its device transfers, shares between groups and frees."""
        plan = cls()
        plan.owned = {(t.unit, t.step) for t in tasks if t.op is Op.H2D}
        plan.incremented = {(t.unit, t.step) for t in tasks if t.op is Op.INCREMENT}
        plan.rebuilt = {(t.unit, t.step) for t in tasks if t.op is Op.RECONSTRUCT}
        ended = {t.unit: place for place, t in enumerate(tasks) if t.op is Op.BACKWARD}
        for unit in dict.fromkeys(t.unit for t in tasks if t.step >= 0):
            if (unit, 0) in plan.owned:
                plan.chains.append((unit,))
            else:
                plan.chains[-1] = (*plan.chains[-1], unit)
        nodes = {t.unit: int(schedule.nodes[t.task]) for t in tasks if t.op is Op.H2D}
        for chain in plan.chains:
            length = (max(chain) - min(chain)) * hyper.stride + hyper.group_size
            plan.folds |= dict.fromkeys(chain, Fold(min(chain) * hyper.stride, length, nodes[chain[0]]))
            own: list[SnapshotKey] = []
            for before, unit in pairwise((chain[0], *chain)):
                for step in range(hyper.group_size):
                    key = (unit, step)
                    if key in plan.owned:
                        own.append(key)
                        plan.seat[key] = key
                    else:
                        plan.seat[key] = plan.seat[before, step + (unit - before) * hyper.stride]
                plan.frees[unit] = ()
            plan.frees[max(chain, key=ended.__getitem__)] = own
        plan.groups = groups_of(schedule)
        return plan


def acquire_graph(graph: CSR) -> CSR:
    """Return an adjacency that another lane of this rank made, marked as read by this lane's CUDA stream (`transfers.record_use`)."""
    record_use(graph.indptr, graph.indices, graph.values)
    return graph


def acquire_edge_map(edges: EdgeMap) -> EdgeMap:
    """Return changed edges that another lane of this rank made, marked as read by this lane's CUDA stream (`transfers.record_use`)."""
    record_use(edges.rows, edges.indptr, edges.indices, edges.sign)
    return edges


@dataclass(slots=True)
class DeviceState:
    """Tensors that one rank's device holds between rows, while it trains whole snapshot groups.

    Rows of a group follow one another, so that one `pending` serves all; tensors that outlive a row are stored by the snapshot's key,
    (unit, step).
    """

    model: SnapshotModel
    plan: ResidencyPlan
    group_size: int
    variant: str
    features: dict[SnapshotKey, Tensor] = field(default_factory=dict)  # input features, by the snapshot that they were sent with
    sums: Tensor | None = None  # unnormalised sums of the last snapshot: where increments go on
    projected: ScoredFeatures | None = None  # the input features, transformed for attention
    pending: Tensor | ScoredFeatures | None = None  # between the rows of a layer above the first
    snapshots: dict[SnapshotKey, DeviceSnapshot] = field(default_factory=dict)
    state: dict[tuple[int, int], State] = field(default_factory=dict)  # (unit, layer)
    hidden: dict[tuple[int, int, int], Tensor] = field(default_factory=dict)  # (unit, layer, step): what the layer above reads, or the loss
    shared: dict[int, SharedRecurrence] = field(default_factory=dict)  # by unit, where groups share rows

    def at(self, task: Task, back: int = 0) -> DeviceSnapshot:
        """Return the tensors of a row's snapshot on this rank's device, or those of the snapshot `back` steps before it."""
        return self.snapshots[self.plan.seat[task.unit, task.step - back]]

    def inputs(self, task: Task) -> Tensor:
        """Return the input features that a row reads, on this rank's device: those that its snapshot came with, be it for an earlier
        group, or those that the first group of the snapshot began with.
        """
        seat = self.plan.seat[task.unit, task.step]
        return acquire(self.features[seat if seat in self.plan.features else (self.plan.seat[task.unit, 0][0], 0)])

    def below(self, task: Task) -> Tensor:
        """Return the output of the layer below for a row's snapshot, [N, H], on this rank's device.

        Without a recurrence, the first layer's output may have been made in another group that shares the snapshot.
        """
        layer = task.layer - 1
        below = self.hidden[task.unit, layer, task.step] if layer or self.model.shape.recurs(0) else self.at(task).leaf
        assert below is not None
        return acquire(below).contiguous()

    def hand_on(self, task: Task) -> None:
        """Take the representations of a layer above the first as its output, where no recurrence follows."""
        if not self.model.shape.recurs(task.layer):
            assert isinstance(self.pending, Tensor)
            self.hidden[task.unit, task.layer, task.step] = self.pending

    def read_inputs(self, task: Task) -> None:
        """Drop a snapshot's input features from this rank's device after the row that reads them last, where the next snapshot brings its
        own; a later group that shares the snapshot may summarise them again.
        """
        if self.model.shape.summarises and not self.plan.frees[task.unit]:
            return
        following = (task.unit, task.step + 1)
        if following in self.plan.features or task.step + 1 == self.group_size:
            self.features.pop((task.unit, task.step), None)

    def forget(self, unit: int) -> None:
        """Drop the recurrent states of a snapshot group that has ended from this rank's device."""
        if (shared := self.shared.get(unit)) is not None:
            shared.forget(unit)
        self.state = {key: value for key, value in self.state.items() if key[0] != unit}
        self.hidden = {key: value for key, value in self.hidden.items() if key[0] != unit}
