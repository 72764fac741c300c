"""Strategies on snapshots: what they share, and those that keep every group whole on a rank."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.groups import Placement, deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.targets import predicted_snapshots, predictions
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trained_work import TrainedWork, trained_work
from chronoscale.strategies.workload import Hyper, Workload

PAIRED = ("groups", "snapshots", "parts", "blocks")  # kinds of schedules whose ranks have, or gather, the readouts of all nodes
GROUPED = ("groups", "snapshots", "parts")  # kinds of schedules whose units are snapshot groups


class SnapshotStrategy(Strategy):
    """Base class of planners for a sequence of snapshots."""

    family = "snapshots"
    everywhere: ClassVar[bool] = False  # every rank has a share of the snapshots of every iteration

    @property
    def reads(self) -> frozenset[str]:
        return frozenset()

    def refuses(self, hyper: Hyper) -> str:
        """Return why the strategy cannot train with these hyper-parameters ('' where it can): the loss of an edge needs the readouts of
        both ends, which ranks with samples or batches of nodes do not gather."""
        if not task_of(hyper.task).pairs or self.kind in PAIRED:
            return ""
        return f"does not gather the nodes of a snapshot, and training.task: '{hyper.task}' needs both ends of every edge"

    def rows(self, workload: Workload, ranks: int) -> int:
        """Estimate the rows of a plan on snapshots before it is made: the operations of every layer of every snapshot of a group, and the
        synchronisation of every rank and group."""
        hyper, layers = workload.hyper, workload.model.layers
        seats = workload.groups + ranks * self.everywhere
        return seats * hyper.group_size * (8 * layers + 6) + 3 * (workload.groups + ranks)

    def formulas(self, workload: Workload, schedule: Schedule) -> str:
        """Return what the strategy computes otherwise than the model says; '' for one that is exact."""
        return ""

    def trained_work(self, workload: Workload, schedule: Schedule) -> TrainedWork:
        """Return what an epoch trains on where units are snapshot groups, which predict their last snapshot's successor, or every one's."""
        hyper, rows = workload.hyper, schedule.tasks(Op.BACKWARD)
        if schedule.kind not in GROUPED:  # modelled: all groups, in an order that nobody says
            each = hyper.group_size if workload.model.predicts_each else 1
            return TrainedWork(workload.groups * each * workload.snapshots.num_nodes, self.name)
        step, unit = np.unique(np.stack([schedule.iteration[rows], schedule.unit[rows]]), axis=1)
        target = predicted_snapshots(workload, unit)
        steps, terms = np.repeat(step, target.shape[1]), predictions(workload, target.ravel())
        return trained_work(steps, target.ravel(), terms, self.formulas(workload, schedule))


class GroupStrategy(SnapshotStrategy):
    """Base class of planners that keep every snapshot group whole on a rank: a subclass places groups, `reuse` says what is computed once
    for several snapshots or groups."""

    kind = "groups"
    reuse: Reuse

    def formulas(self, workload: Workload, schedule: Schedule) -> str:
        """Return that sums were incremented as published, which is no longer exact (REAL eq. 3-4); '' else."""
        incremented = self.reuse.snapshots and not task_of(workload.hyper.task).varies
        return "increments as published" if incremented and workload.hyper.variant == "as-published" else ""

    @abstractmethod
    def place(self, workload: Workload, ranks: int, costs: CostModel) -> Placement:
        """Place every snapshot group on a rank and in an iteration; `plan` makes the schedule of it. Raises UserError for a workload that
        is no sequence of snapshots, or 0 ranks."""

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch: place the snapshot groups, then add their rows. Raises UserError for a workload that is no sequence of snapshots,
        0 ranks, and a placement of other groups or ranks."""
        placed = self.place(workload, ranks, costs)
        columns = (placed.rank, placed.iteration, placed.slot)
        if placed.ranks != ranks or any(len(column) != workload.groups or column.dtype.kind != "i" for column in columns):
            got = f"{', '.join(f'{column.dtype} [{len(column)}]' for column in columns)} on {placed.ranks} ranks"
            raise UserError(f"strategy '{self.name}': expected a place for each of {workload.groups} groups on {ranks} ranks, got {got}")
        return lower(self.name, workload, placed, self.reuse, costs)


@dataclass(frozen=True, slots=True)
class RoundRobinStrategy(GroupStrategy):
    """Planner of PSG and BLAD: snapshot groups go to ranks in time order, `each` consecutive ones to a rank and iteration (None: as many as
    the experiment says)."""

    name: str
    title: str
    source: str
    reuse: Reuse
    each: int | None = None
    summary: str = ""
    ablates: str = ""

    def place(self, workload: Workload, ranks: int, costs: CostModel) -> Placement:
        return deal(workload.groups, ranks, self.each or workload.hyper.groups_per_rank)
