"""SpreadStrategy: a strategy on events whose node memory is spread over ranks, defined by a name and what ranks share."""

from __future__ import annotations

from dataclasses import dataclass

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.streams.spread import epoch
from chronoscale.strategies.streams.spread.sharing import Sharing
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
