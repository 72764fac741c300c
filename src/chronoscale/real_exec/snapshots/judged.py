"""Judged plans: the model is scored on what is held out; the best epoch's, or the last, is tested at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.snapshots.scored import Judge, Scored, Trainer
from chronoscale.real_exec.training.best import best_of, keep_best, restore_best
from chronoscale.real_exec.training.checkpoint import replaced
from chronoscale.real_exec.training.plans import TEST, Plans
from chronoscale.real_exec.training.tested import checked


class JudgedPlans(Plans):
    """A subclass has a `learner`, and says which schedules are followed, by programs that it has `scored`. In the folder of the training:
    BEST, where snapshots validate, and at the end TEST, where snapshots test."""

    def __init__(self, judge: Judge, folder: Path, context: Context, strategy: str) -> None:
        """`strategy`: that is named where a score is not finite."""
        self._judge, self._folder, self._context, self._strategy = judge, folder, context, strategy

    def scored(self, trainer: Trainer) -> Program:
        """The trainer, its epochs ending with the scores of what validates."""
        return Scored(trainer, self._judge, validates=True) if self._judge.validation else trainer

    def over(self, scores: Sequence[Mapping[str, float]]) -> bool:
        """Never; the last epoch's model is kept where it is the best."""
        best = self.best(scores)
        if best == len(scores) - 1 and self._context.rank == 0:
            keep_best(self._folder, best, self.learner.model, {})
        return False

    def best(self, scores: Sequence[Mapping[str, float]]) -> int | None:
        """As `best_of`, where snapshots validate."""
        return best_of(scores) if self._judge.validation else None

    def end(self) -> None:
        """Score the snapshots that test."""
        if not self._judge.test:
            return
        self._context.collective.barrier()
        if self._judge.validation:
            restore_best(self._folder, self.learner.model, lambda kept: None)
        tested = checked(self._judge.tested(self.learner.model), self._strategy, "after training")
        if self._context.rank == 0:
            replaced(self._folder / TEST, json.dumps(dict(tested)).encode())
