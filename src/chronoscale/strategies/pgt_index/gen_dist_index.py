"""Generalized-distributed-index-batching: each rank reads only its part of a series larger than memory (PGT-I §5.4)."""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.batches import Supply, deals, epoch, preparation, share_moments, step_bytes
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.workload import Family, Workload

INDEX = 8  # bytes of a window's start


class GenDistIndex:
    """A batch is consecutive windows of the rank's part: one block of steps, read ahead; the order of batches is shuffled."""

    name = "gen-dist-index"
    title = "Generalized-distributed-index-batching"
    source = "PGT-I §5.4"
    family = Family.ST

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload that is not a signal, or 0 ranks."""
        return epoch(self.name, workload, ranks, Supply.BLOCK, self._host(workload, ranks))

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Moments of the rank's share of the steps that standardising reads. Raises UserError as `plan`."""
        builder, site = preparation(self.name, workload, ranks, self._host(workload, ranks))
        read = builder.add(Op.MATERIALISE, Lane.HOST, site, {"bytes": shares(workload, ranks) * step_bytes(workload)})
        share_moments(builder, site, workload, (read,))
        return builder.finish()

    def _host(self, workload: Workload, ranks: int) -> int:
        """Two blocks, one in use and one read ahead, and the starts of the rank's windows."""
        windows = workload.windows
        largest = int(deals(windows, workload.hyper, ranks, self.name)[0].sizes().max())
        return 2 * (largest + windows.reach - 1) * step_bytes(workload) + -(-len(windows) // ranks) * INDEX


def shares(workload: Workload, ranks: int) -> Ints:
    """Steps of which each rank takes the moments, consecutive and as even as can be; int64 [ranks]."""
    period = workload.signal.steps if workload.hyper.standardise == "series" else workload.windows.training_steps
    return period // ranks + (np.arange(ranks) < period % ranks)
