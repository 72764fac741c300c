"""StreamStrategy: a strategy on events, defined by a name, a way to feed batches, and how far ahead they are fetched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.rows import epoch
from chronoscale.strategies.trained_work import TrainedWork, trained_work
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True)
class StreamStrategy(Strategy):
    """Planner of epochs on an event stream whose ranks have equal copies of node memory (TGL, FAST ...): strategies differ in how batches
    come to the device (`feeding`), and how far ahead.

    ahead: batches that are sampled, gathered and sent while one trains; 0: nothing overlaps.
    """

    name: str
    title: str
    source: str
    feeding: StreamFeeding
    ahead: int = 1
    summary: str = ""
    ablates: str = ""
    family = "streams"
    kind = "events"

    @property
    def way(self) -> str:
        """The text that tells this strategy's batches from other strategies' where they are timed for a profile."""
        return str(self.feeding)

    @property
    def bound(self) -> bool:
        """Whether the threads that sample are bound to processors (FAST §4.4)."""
        return self.feeding.bound

    @property
    def reads(self) -> frozenset[str]:
        return self.feeding.reads

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch on an event stream. Raises UserError for another family, and for a model that was not counted."""
        return epoch.plan_epoch(self.name, workload, ranks, self.feeding, self.ahead)

    def trained_work(self, workload: Workload, schedule: Schedule) -> TrainedWork:
        """Return what an epoch trains on: events in the order of time, those of all ranks' batches in each optimiser step."""
        hyper = workload.hyper
        dealt = BatchAssignment(range(workload.events.training), schedule.ranks, hyper.batch_size, hyper.batches, hyper.events.every)
        steps = np.arange(dealt.iterations)
        ends = np.array([(part.start, part.stop) for part in map(dealt.all_events, steps.tolist())], np.int64).reshape(-1, 2)
        formulas = "a node of a batch once" * self.feeding.merged + "as FAST's public code samples" * self.feeding.published
        work = trained_work(np.repeat(steps, 2), ends.ravel(), 1, formulas)  # a step's events lie between its ends
        return work._replace(targets=int((ends[:, 1] - ends[:, 0]).sum()))

    def rows(self, workload: Workload, ranks: int) -> int:
        """Count the rows of a plan on an event stream before it is made: every batch's operations on the rank that has it, and what all
        ranks do in an iteration."""
        return epoch.count_rows(workload, ranks, self.feeding)
