"""Evaluated plans: training whose model is scored on held-out snapshots; the best epoch's, or the last, is tested at the end."""

from __future__ import annotations

import json
from collections.abc import Callable

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.nonfinite import require_finite
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.snapshots.material import shared_material
from chronoscale.real_exec.snapshots.scoring import MakeScoredSplits, ScoredProgram, ScoredSplits
from chronoscale.real_exec.snapshots.trainer import Trainer
from chronoscale.real_exec.training.best_plans import BestPlans
from chronoscale.real_exec.training.plans import Plan
from chronoscale.real_exec.training.training_end import PREDICTED_SNAPSHOTS, TEST, remove_predicted
from chronoscale.records import write_atomically
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import ModelChoice


class EvaluatedPlans(BestPlans):
    """Plans of a training on snapshots whose model is scored on held-out ones.

    A subclass has a `learner`, and chooses the schedules and the programs (`with_scores`) that execute them. In the folder of the training,
    at the end: TEST, where there are test snapshots.
    """

    def __init__(self, splits: ScoredSplits, job: Job, context: Context, strategy: str) -> None:
        """strategy: the name in error messages about scores that are not finite."""
        super().__init__(job, context, bool(splits.validation))
        self._splits = splits
        self._strategy = strategy

    def with_scores(self, trainer: Trainer) -> Program:
        """Return a program that executes this rank's rows as `trainer`, and validates at the end of each pass, where there are validation
        snapshots.
        """
        return ScoredProgram(trainer, self._splits, validates=True) if self._splits.validation else trainer

    def end(self) -> None:
        """Score the test snapshots with the best epoch's model on all ranks, and write the scores."""
        if not self._splits.test:
            return
        self.take_best()
        predicted, rank = self._folder / PREDICTED_SNAPSHOTS, self._context.rank
        remove_predicted(self._folder, str(rank) if rank else "*")  # those of an end before, perhaps on another number of ranks
        self._context.collective.barrier()
        if self._writes_predictions:
            predicted.mkdir(exist_ok=True)
            self._splits.tested.write_predictions_to(predicted)
        scores = require_finite(self._splits.test_scores(self.learner.model), self._strategy, "after training")
        self._context.gather_files(self._folder, lambda rank: f"{PREDICTED_SNAPSHOTS}/[0-9]*.{rank}.npy")
        if self._context.rank == 0:
            write_atomically(self._folder / TEST, json.dumps(dict(scores)).encode())


STAGE = "training"
BindTrainer = Callable[[Item, Schedule, ModelChoice, Context], Trainer]


class FixedPlans(EvaluatedPlans):
    """Plans of a training on snapshots with one schedule for every epoch, of any kind."""

    def __init__(self, bind: BindTrainer, make_splits: MakeScoredSplits, job: Job, schedule: Schedule, context: Context) -> None:
        """Bind the job's schedule. Raises UserError when it is for another number of ranks, and as `bind` does."""
        item = job.items[0]
        trainer = bind(item, context.require_ranks(schedule), job.model, context)
        trainer.adapts = job.settings.adapts
        splits = make_splits(shared_material(item, job.model, context), item.hyper, context, schedule)
        super().__init__(splits, job, context, schedule.name)
        self.learner = trainer.learner
        self._trainer, self._plan = trainer, Plan(0, STAGE, schedule, self.with_scores(trainer))

    def at(self, epoch: int) -> Plan:
        self._trainer.epoch = epoch
        return self._plan
