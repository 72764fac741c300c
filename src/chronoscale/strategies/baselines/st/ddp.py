"""DDP: windows spread over the workers of a data engine, batches fetched when they are needed (PGT-I §5, baseline DDP; §5.4)."""

from __future__ import annotations

from chronoscale.strategies.batches import Supply, epoch, materialised_bytes, preparation, share_moments
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.workload import Family, Workload


class DDP:
    """Global shuffling: a batch's windows lie on many workers; one request a worker and batch, through one scheduler."""

    name = "ddp"
    title = "DDP"
    source = "PGT-I §5, §5.3.2"
    family = Family.ST

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload that is not a signal, or 0 ranks."""
        return epoch(self.name, workload, ranks, Supply.ENGINE, _share(workload, ranks))

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Each rank copies out its share of the windows, standardised alike. Raises UserError as `plan`."""
        share = _share(workload, ranks)
        builder, site = preparation(self.name, workload, ranks, share)
        added = share_moments(builder, site, workload)
        builder.add(Op.MATERIALISE, Lane.HOST, site, {"bytes": share}, after=added)
        return builder.finish()


class DDPBatch(DDP):
    """Local batch shuffling: a batch is fixed and lies on one worker; one request a batch (PGT-I §5.4, Fig. 9)."""

    name = "ddp-batch"
    title = "DDP, batch shuffling"
    source = "PGT-I §5.4"


def _share(workload: Workload, ranks: int) -> int:
    return -(-materialised_bytes(workload) // max(ranks, 1))
