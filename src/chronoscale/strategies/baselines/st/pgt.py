"""PGT: every window copied out beforehand, as PyTorch Geometric Temporal and DCRNN prepare a signal (PGT-I §2.3, Algorithm 1)."""

from __future__ import annotations

from chronoscale.strategies.batches import Supply, epoch, materialised_bytes, preparation, series_bytes
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.workload import Family, Workload


class PGT:
    """Inputs and targets of all windows stand in host memory (eq. 1); a batch is copied together there. Every rank holds them all."""

    name = "pgt"
    title = "PGT"
    source = "PGT-I §2.3, Algorithm 1"
    family = Family.ST

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload that is not a signal, or 0 ranks."""
        return epoch(self.name, workload, ranks, Supply.HOST, _host(workload))

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Windows copied out, standardised. Raises UserError as `plan`."""
        builder, site = preparation(self.name, workload, ranks, _host(workload))
        builder.add(Op.MATERIALISE, Lane.HOST, site, {"bytes": materialised_bytes(workload)})
        return builder.finish()


def _host(workload: Workload) -> int:
    """Exact: a window is standardised as it is copied. As published: line 19 makes a standardised x beside the old one and the series."""
    size = materialised_bytes(workload)
    return size if workload.hyper.variant == "exact" else size * 3 // 2 + series_bytes(workload)
