"""Published plans: the plans of REAL's three stages, which appear in a folder while ranks train (REAL §3.3).

Ranks keep one model and one optimiser through all of them, and take up a new plan at the end of an epoch when there is one; they never wait
for it. In the job's folder: `plans/<number>/` (schedule.parquet, plan.json, forms/), each there whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.snapshots.evaluated_plans import EvaluatedPlans
from chronoscale.real_exec.snapshots.material import shared_material
from chronoscale.real_exec.snapshots.material_files import map_material
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.scoring import group_splits
from chronoscale.real_exec.training.plans import Plan
from chronoscale.records import read_json
from chronoscale.strategies.schedule import Schedule

PLAN = "plan.json"  # in a plan's folder: `PlanRecord`


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """Content of plan.json beside a schedule that ranks take up while they train: the stage of training, the strategy, and whether costs
    are fitted to its epochs.
    """

    stage: str
    strategy: str = ""
    timed: bool = False


def plan_folder(folder: Path, number: int) -> Path:
    """Return the path of a plan (a schedule to take up while ranks train) in the folder of a training."""
    return folder / "plans" / f"{number:03d}"


def newest_plan(folder: Path) -> int:
    """Return the highest number of a plan that is published in the folder of a training, -1 for none."""
    return max((int(path.name) for path in (folder / "plans").glob("[0-9]*") if path.name.isdecimal()), default=-1)


class PublishedPlans(EvaluatedPlans):
    """Plans of a training that takes up the newest plan in its folder at the end of an epoch (REAL §3.3): rank 0 looks, and all ranks
    follow.
    """

    def __init__(self, job: Job, first: Schedule, context: Context) -> None:
        self._item = job.items[0]
        self._first = first
        self._material = shared_material(self._item, job.model, context)
        super().__init__(group_splits(self._material, self._item.hyper, context, first), job, context, first.name)
        self.learner = learner_of(job.model, context, self._material.objective.outputs(job.model.hidden))
        self._plan: Plan | None = None

    def at(self, epoch: int) -> Plan:
        """Return the plan of the epoch that is about to begin: the newest that is published. Called on every rank.

        Raises UserError for a plan that is for another number of ranks.
        """
        number = self._broadcast(newest_plan(self._folder) if self._context.rank == 0 and epoch else 0)
        if self._plan is None or number != self._plan.number:
            self._plan = self._take_up(number)
        self._trainer.epoch = epoch
        return self._plan

    def _broadcast(self, number: int) -> int:
        """Return rank 0's number on all ranks; that of the others has to be 0."""
        shared = torch.tensor([number], dtype=torch.int64, device=self._context.device)
        self._context.collective.all_reduce(shared)
        return int(shared.item())

    def _take_up(self, number: int) -> Plan:
        folder, context = plan_folder(self._folder, number), self._context
        if number:
            context.broadcast_files(self._folder, f"{folder.relative_to(self._folder)}/**/*")
        schedule = context.require_ranks(Schedule.load(folder / "schedule.parquet") if number else self._first)
        for earlier in range(number + 1):
            if (shipped := plan_folder(self._folder, earlier) / "forms").exists():
                map_material(shipped, self._material.stores(), pin=context.device.type == "cuda")
        self._trainer = SnapshotProgram(schedule, self._material, self.learner, self._item.hyper, context)
        published = read_json(folder / PLAN, PlanRecord, "plan")
        return Plan(number, published.stage, schedule, self.with_scores(self._trainer), published.timed)
