"""GPU-index-batching: the series moves to the device once; windows are cut there (PGT-I §4.1)."""

from __future__ import annotations

from chronoscale.strategies.batches import Supply, epoch, preparation, series_bytes
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.workload import Family, Workload

INDEX = 8  # bytes of a window's start


class GpuIndex:
    """One transfer before the first epoch, none after it."""

    name = "gpu-index"
    title = "GPU-index-batching"
    source = "PGT-I §4.1"
    family = Family.ST

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload that is not a signal, or 0 ranks."""
        return epoch(self.name, workload, ranks, Supply.DEVICE, _host(workload))

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """The series moved and standardised on the device. Raises UserError as `plan`."""
        size = series_bytes(workload)
        builder, site = preparation(self.name, workload, ranks, _host(workload))
        moved = builder.add(Op.H2D, Lane.H2D, site, {"bytes": size, "alloc": size})
        builder.add(Op.MATERIALISE, Lane.COMPUTE, site, {"bytes": size}, after=(moved,))
        return builder.finish()


def _host(workload: Workload) -> int:
    """Exact: indices; the file is read block by block. As published: the loaded series stays beside them."""
    index = len(workload.windows) * INDEX
    return index if workload.hyper.variant == "exact" else index + series_bytes(workload)
