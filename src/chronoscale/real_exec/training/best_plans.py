"""BestPlans: plans of a training that keeps the model of its best epoch, ends where none gets better, and tests that model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.training.best_epoch import BEST, best_epoch, load_best, save_best
from chronoscale.real_exec.training.plans import Plans


class BestPlans(Plans):
    """Plans of a training whose model is that of the epoch with the best validation score, base of all families'.

    In the job's folder: BEST. Training ends early where `patience` epochs of the job's settings have not improved the first score (0:
    never). Where nothing is validated, the model is the last epoch's, which is kept as well where plans have other `state` to test with.
    """

    def __init__(self, job: Job, context: Context, validates: bool, state: bool = False) -> None:
        """validates: whether epochs end with a validation. state: whether plans have other state than the model (`extra_state`)."""
        self._folder = Path(job.out)
        self._context = context
        self._patience = job.settings.patience
        self._writes_predictions = job.settings.writes_predictions
        self._validates, self._saves = validates, validates or state

    def after_epoch(self, scores: Sequence[Mapping[str, float]]) -> bool:
        """Save the last epoch's model, and the plans' other state, where they are the best; return whether patience is over, so that
        training ends.

        scores: of all epochs so far, by key.
        """
        best = best_epoch(scores)
        if self._saves and best == len(scores) - 1 and self._context.rank == 0:
            save_best(self._folder, best, self.learner.model, self.extra_state())
        return self._validates and 0 < self._patience <= len(scores) - 1 - best

    def best(self, scores: Sequence[Mapping[str, float]]) -> int | None:
        return best_epoch(scores) if self._validates else None

    def take_best(self) -> int | None:
        """Load the model and other state that are kept on this rank, where there are any, and return their epoch's number. Called on every
        rank."""
        self._context.collective.barrier()
        if not self._saves:
            return None
        self._context.broadcast_files(self._folder, BEST)
        return load_best(self._folder, self.learner.model, self.restore)
