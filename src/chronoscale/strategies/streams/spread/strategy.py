"""SpreadStrategy: a strategy on events whose node memory is spread over ranks, defined by a name and what ranks share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.streams.spread import epoch
from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.trained_work import TrainedWork, trained_work
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True)
class SpreadStrategy(Strategy):
    """Planner of epochs on an event stream whose node memory is spread over ranks (MemShare, TGL on parts, MSPipe, DistTGL): strategies
    differ in what ranks share."""

    name: str
    title: str
    source: str
    sharing: Sharing
    summary: str = ""
    ablates: str = ""
    family = "streams"
    kind = "spread"

    @property
    def way(self) -> str:
        """The text that tells this strategy's batches from other strategies' where they are timed for a profile."""
        return str(self.sharing)

    @property
    def bound(self) -> bool:
        """False: these strategies bind no sampling threads to processors."""
        return False

    @property
    def reads(self) -> frozenset[str]:
        return self.sharing.reads

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch on an event stream whose node memory ranks share.

        Raises UserError for another family, a model without memory or one that was not counted, and for a stream that cannot be cut into so
        many parts.
        """
        return epoch.plan_epoch(self.name, workload, ranks, self.sharing)

    def rows(self, workload: Workload, ranks: int) -> int:
        """Count the rows of a plan on spread node memory before it is made: as many as there are where every rank has events in every
        iteration."""
        return epoch.count_rows(workload, ranks, self.sharing)

    def trained_work(self, workload: Workload, schedule: Schedule) -> TrainedWork:
        """Return what an epoch trains on: events in the order of time, of every group of ranks' own span (of DistTGL's, every
        rank's)."""
        hyper, ranks, events = workload.hyper, schedule.ranks, workload.events.training
        limits = (hyper.batch_size, hyper.batches, hyper.events.every)
        members = self.sharing.spread(hyper).members(ranks)
        groups = ranks // members
        spans = [range(events * group // groups, events * (group + 1) // groups) for group in range(groups)]
        dealt = [BatchAssignment(span, members, *limits) for span in spans]
        parts = [(step, part.all_events(step)) for part in dealt for step in range(part.iterations)]
        ends = np.array([(batch.start, batch.stop) for _, batch in parts], np.int64).reshape(-1, 2)
        steps = np.repeat([step for step, _ in parts], 2)
        reads_cache = self.sharing.neighbours == "decay-cached"  # so that what is cached changes what is computed
        formulas = f"{replace(self.sharing, pipelined=False, cached=reads_cache)} on {ranks} ranks"
        work = trained_work(steps, ends.ravel(), 1, formulas)
        return work._replace(targets=int((ends[:, 1] - ends[:, 0]).sum()))
