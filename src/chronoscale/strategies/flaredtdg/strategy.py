"""Strategies that train on sliding windows of snapshots whose vertices all ranks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.errors import UserError
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.flaredtdg.issue_order import Policy, early_ready, one_by_one, round_robin
from chronoscale.strategies.flaredtdg.plan import Plan
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.snapshots.targets import predictions
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.trained_work import TrainedWork, trained_work
from chronoscale.strategies.workload import Hyper, Recency, Workload

MOST = 30_000_000  # rows: some 12 GB while they are built


@dataclass(frozen=True, slots=True)
class WindowStrategy(SnapshotStrategy):
    """Planner of FlareDTDG and its ablations: sliding windows of snapshots are trained one after another, and all ranks share their
    vertices.

    keeps: what a window keeps of older snapshots, from the experiment's settings. policy: which snapshot of a window goes on
    (`issue_order`). shrinks: older snapshots are cut on the device, else built anew. inherits: hidden states go on from window to window.
    """

    name: str
    title: str
    source: str
    keeps: Callable[[Recency], Decay]
    policy: Policy = early_ready
    shrinks: bool = True
    inherits: bool = True
    summary: str = ""
    ablates: str = ""
    kind: ClassVar[str] = "blocks"
    chunked: ClassVar[bool] = True

    def rows(self, workload: Workload, ranks: int) -> int:
        """Count the rows of FlareDTDG's plan before it is made: every rank has a part in every snapshot of every window. Raises UserError
        for a window that is longer than the sequence."""
        return self._plan(workload, ranks).rows

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan the first epoch; the random choices of later ones differ, and so, a little, their counts.

        Raises UserError for a window that is longer than the sequence, fewer chunks than ranks, attention, and more rows than memory holds.
        """
        workload.snapshots  # noqa: B018 (refuses other families)
        if workload.model.transforms_first:
            raise UserError(f"{self.name}: model '{workload.model.name}' attends; windows take graph convolutions")
        if workload.chunking is None:
            raise UserError(f"{self.name}: '{workload.name}' needs chunks, has none")
        if (rows := self.rows(workload, ranks)) > MOST:
            fit = max(MOST * workload.groups // rows, 1)
            raise UserError(f"{self.name}: its windows on {ranks} ranks take {rows:,} rows; set `groups: {fit}` or fewer")
        return self._plan(workload, ranks).schedule(costs)

    def refuses(self, hyper: Hyper) -> str:
        """Return why windows cannot train with these hyper-parameters: as published, every rank's loss is a mean of its own nodes'."""
        if task_of(hyper.task).pairs and hyper.variant == "as-published":
            return f"has, with variant: as-published, a loss of each rank's own nodes, and training.task: '{hyper.task}' pairs nodes of all"
        return SnapshotStrategy.refuses(self, hyper)  # a class with slots has no bare super()

    def trained_work(self, workload: Workload, schedule: Schedule) -> TrainedWork:
        """Return what the first epoch trains on: the snapshot after each window, or, where weights evolve and as published, that after each
        of its snapshots, of the nodes that are retained; of pairs of nodes, which are kept with both ends and their negative's, a share as
        if these were retained independently."""
        plan = self._plan(workload, schedule.ranks)
        each = workload.model.predicts_each or plan.keeping.each
        levels = plan.level if each else plan.level[-1:]
        target = plan.newest[:, None] - np.arange(len(levels))[::-1] + workload.hyper.horizon
        formulas = str(replace(plan.keeping, still=False))
        if plan.keeping.each:  # every rank drops chunks of its own
            formulas += f" on {schedule.ranks} ranks"
        retained = plan.keeping.decay.kept_chunks(plan.chunks)[: len(levels)][::-1]
        ends = 3 if task_of(workload.hyper.task).pairs else 1
        targets = int((predictions(workload, target) @ retained**ends).sum()) // plan.chunks**ends
        work = trained_work(np.repeat(np.arange(len(plan.newest)), len(levels)), target.ravel(), 1, formulas)
        return work._replace(targets=targets)

    def _plan(self, workload: Workload, ranks: int) -> Plan:
        """Return the plan of an epoch, before its rows are put in order."""
        hyper = workload.hyper
        published, apart = hyper.variant == "as-published", hyper.recency.apart
        keeping = WindowRetention(self.keeps(hyper.recency), published, self.inherits, apart=apart)
        return Plan(self.name, workload, ranks, keeping, self.policy, self.shrinks)


def _decayed_history(recency: Recency) -> Decay:
    """Return the experiment's own retention."""
    return recency.decay


def _whole_history(recency: Recency) -> Decay:
    """Return a retention that keeps all snapshots of the experiment's windows whole."""
    return Decay(recency.decay.window, 0, 1.0)


def _recent_history(recency: Recency) -> Decay:
    """Return a retention of only the whole snapshots in the experiment's windows."""
    return Decay(recency.full, 0, 1.0)


FLAREDTDG = WindowStrategy(
    "flaredtdg",
    "FlareDTDG",
    "FlareDTDG §3",
    _decayed_history,
    summary="GPUs share the vertices of sliding windows that keep less of a snapshot the older it is; communication overlaps.",
)
ROUND_ROBIN = WindowStrategy(
    "flaredtdg-turns",
    "FlareDTDG, snapshots in turn",
    "FlareDTDG §3.4",
    _decayed_history,
    round_robin,
    summary="As flaredtdg, but the snapshots of a window are computed in turn, whichever is ready first.",
    ablates="flaredtdg",
)
IN_ORDER = WindowStrategy(
    "flaredtdg-no-overlap",
    "FlareDTDG, nothing overlaps",
    "FlareDTDG §4.3, Table 11",
    _decayed_history,
    one_by_one,
    summary="As flaredtdg, but nothing overlaps: every row waits for the one before it.",
    ablates="flaredtdg",
)
REMAPPED = WindowStrategy(
    "flaredtdg-remap",
    "FlareDTDG, built anew in every step",
    "FlareDTDG §4.3, Table 9",
    _decayed_history,
    shrinks=False,
    summary="As flaredtdg, but what is kept of older snapshots is built anew in every step.",
    ablates="flaredtdg",
)
FULL_HISTORY = WindowStrategy(
    "full-history",
    "Full history",
    "FlareDTDG §4.3, Table 6",
    _whole_history,
    summary="As flaredtdg, but windows keep all of their snapshots whole.",
    ablates="flaredtdg",
)
RECENT_ONLY = WindowStrategy(
    "recent-only",
    "Recent only",
    "FlareDTDG §4.3, Table 6",
    _recent_history,
    inherits=False,
    summary="As flaredtdg, but windows have recent snapshots only, and begin without a hidden state.",
    ablates="flaredtdg",
)
RECENT_STATES = WindowStrategy(
    "recent-states",
    "Recent only, with inherited states",
    "FlareDTDG §3.5",
    _recent_history,
    summary="As recent-only, but hidden states go on from window to window.",
)
