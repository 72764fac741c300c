"""EventPlans: one schedule for every epoch; the best epoch's model, memory and mailbox are kept, and tested at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

from torch import Tensor

from chronoscale.batching.streams.prepared import Period
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.nonfinite import require_finite
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.streams.evaluation import catch_up, evaluate
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.real_exec.training.best_plans import BestPlans
from chronoscale.real_exec.training.plans import Plan
from chronoscale.real_exec.training.training_end import PREDICTED, TEST, EvaluationRecord
from chronoscale.records import write_atomically
from chronoscale.strategies.schedule import Schedule

STAGE = "training"
TRAINED = "trained "  # before the name of a table of node memory as training has left it, before the validation


class EventPlans(BestPlans):
    """Plans of a training on events whose node memory every rank has in full: one schedule for all epochs.

    In the job's folder, at the end: TEST, scores of the test events. An epoch's draws depend only on the seed and its number, and its node
    memory begins empty: a run that was cut off ends where one that was not does.
    """

    def __init__(self, job: Job, schedule: Schedule, context: Context) -> None:
        """Make the program. Raises UserError when the schedule is for another number of ranks, and as `StreamMaterial.of`."""
        super().__init__(job, context, job.items[0].hyper.validate, state=True)
        item = job.items[0]
        self._schedule = context.require_ranks(schedule)
        material = StreamMaterial.of(item, job.model, context)
        self.learner = material.learner(job.model, context)
        self._program = EventProgram(schedule, material, self.learner, item.hyper, context)
        published = bool(material.data.protocol.published.validation)
        self._goes_back = published and item.hyper.validate and material.shape.memory > 0  # to memory of before the validation
        self._program.keeps_trained_state = self._goes_back and context.rank == 0  # whose files all ranks restore
        self._plan: Plan | None = None

    def at(self, epoch: int) -> Plan:
        if self._plan is None:
            self._program.epoch = epoch
            self._plan = Plan(0, STAGE, self._schedule, self._program)
        return self._plan

    def extra_state(self) -> Mapping[str, Tensor]:
        """Return node memory and mailbox as the epoch has left them on this rank, for a checkpoint, and on rank 0 as its training has,
        where the validation is ranked once training is over."""
        trained = {f"{TRAINED}{name}": table for name, table in self._program.trained_state.items()}
        return {**self._program.state.tables(), **trained}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._program.state.restore(state)
        if self._goes_back:
            self._program.trained_state = {name: state[f"{TRAINED}{name}"].cpu() for name in self._program.state.tables()}

    def end(self) -> None:
        """Score the test events with the best epoch's model, its node memory going on, and write the scores; before them the validation's,
        where negatives of its events are published."""
        self.take_best()
        start = perf_counter()
        validation = self._end_validation()
        between = perf_counter()
        tested = self._evaluate("test", self._folder / PREDICTED if self._writes_predictions else None)
        if self._context.rank == 0:
            write_atomically(self._folder / TEST, json.dumps(tested).encode())
            times = () if self._context.virtual else (between - start, perf_counter() - between)
            EvaluationRecord(validation, *times).save(self._folder)

    def _end_validation(self) -> dict[str, float]:
        """Rank the validation events against published negatives and return their scores; {} where there are none. Node memory is then as
        it is behind them."""
        program = self._program
        if not program.data.protocol.published.validation:
            if not program.hyper.validate:
                catch_up(program)
            return {}
        if not self._goes_back:
            return self._evaluate("validation")
        behind = {name: table.clone() for name, table in program.state.tables().items()}
        program.state.restore(program.trained_state)
        scores = self._evaluate("validation")
        program.state.restore(behind)
        return scores

    def _evaluate(self, period: Period, file: Path | None = None) -> dict[str, float]:
        return dict(require_finite(evaluate(self._program, file, period), self._schedule.name, "after training"))
