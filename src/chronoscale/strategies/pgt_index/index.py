"""Index-batching: one copy of the series and an index a window; batches are cut when they are needed (PGT-I §4.1)."""

from __future__ import annotations

from chronoscale.strategies.batches import Supply, epoch, preparation, series_bytes
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.workload import Family, Workload


class Index:
    """The series stands in host memory (eq. 2), on every rank."""

    name = "index"
    title = "Index-batching"
    source = "PGT-I §4.1"
    family = Family.ST

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload that is not a signal, or 0 ranks."""
        return epoch(self.name, workload, ranks, Supply.HOST, _host(workload))

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """The series standardised. Raises UserError as `plan`."""
        builder, site = preparation(self.name, workload, ranks, _host(workload))
        builder.add(Op.MATERIALISE, Lane.HOST, site, {"bytes": series_bytes(workload)})
        return builder.finish()


def _host(workload: Workload) -> int:
    return workload.windows.index_bytes(workload.signal.sensors, workload.signal.channels, workload.signal.itemsize)
