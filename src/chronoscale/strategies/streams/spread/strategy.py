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
    """A strategy on events whose node memory is spread over ranks: a name, and what ranks share."""

    name: str
    title: str
    source: str
    sharing: Sharing
    summary: str = ""
    family = "streams"
    kind = "spread"

    @property
    def way(self) -> str:
        """The text that tells its batches from other strategies' where they are timed."""
        return str(self.sharing)

    @property
    def bound(self) -> bool:
        """False: threads that sample are not bound to processors."""
        return False

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch.

        Raises UserError for another family, a model without memory or one that was not counted, and for a stream that cannot be cut into so
        many parts.
        """
        return epoch.plan_epoch(self.name, workload, ranks, self.sharing)

    def rows(self, workload: Workload, ranks: int) -> int:
        """Count the rows of a plan without sampling: as many as there are where every rank has events in every iteration."""
        return epoch.count_rows(workload, ranks, self.sharing)
