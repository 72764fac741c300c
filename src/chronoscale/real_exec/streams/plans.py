"""Plans on events: one schedule for every epoch; the weights, memory and mailbox of the best epoch are kept, and tested at the end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from chronoscale.kept import reading
from chronoscale.real_exec.context import Context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.plans import TEST, Plan
from chronoscale.real_exec.streams.evaluation import evaluate
from chronoscale.real_exec.streams.material import Material
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.strategies.schedule import Schedule

STAGE = "training"
BEST = "best.pt"


class EventPlans:
    """Training ends early where `patience` epochs have not brought a better first score (0: never). In the job's folder: BEST, the best
    epoch's model and node state, and at the end TEST, the scores of the test events.
    """

    def __init__(self, job: Job, schedule: Schedule, context: Context) -> None:
        """Raises UserError when the schedule is for another number of ranks, and as `Material.of`."""
        item = job.items[0]
        self._schedule, self._context, self._folder, self._patience = context.admit(schedule), context, Path(job.out), job.patience
        material = Material.of(item, job.model, context)
        self.learner = material.learner(job.model, context)
        self._program = EventProgram(schedule, material, self.learner, item.hyper, context)
        self._plan: Plan | None = None

    def at(self, epoch: int) -> Plan:
        """The plan, from this epoch on."""
        if self._plan is None:
            self._program.epoch = epoch
            self._plan = Plan(0, STAGE, self._schedule, self._program)
        return self._plan
