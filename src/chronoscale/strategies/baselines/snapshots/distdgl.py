"""DistDGL: every snapshot cut into vertex parts, one a rank (REAL §2.3, §7.1; Zheng et al., IA3 2020)."""

from __future__ import annotations

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.builder import NONE, Builder
from chronoscale.strategies.builder import Columns as Site
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.kernels import DESCRIPTORS
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.cells import Cells, Region, stages, synchronise
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.workload import Partition, Workload

MOST = 30_000_000  # rows: some 12 GB while they are built


class DistDGL(SnapshotStrategy):
    """All ranks train every group together, each its own rows; remote neighbours' rows are fetched for every snapshot and layer.

    Nothing overlaps: REAL appendix D.2 finds no overlap of computation and transfer.
    """

    name, title, kind = "distdgl", "DistDGL", "parts"
    source = "REAL §7.1 [66]"
    partitioned = True

    def rows(self, workload: Workload, ranks: int) -> int:
        """Every rank has a part in every snapshot."""
        return workload.groups * ranks * workload.hyper.group_size * (1 + 7 * workload.model.layers)

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload of another family or has no partition into `ranks` parts, and for more rows than
        memory holds."""
        groups, each = workload.groups, workload.hyper.groups_per_rank
        placement = deal(groups, 1 if ranks else 0, each)
        partition = workload.partition
        if partition is None or partition.parts != ranks:
            found = "none" if partition is None else f"one into {partition.parts}"
            raise UserError(f"distdgl: '{workload.name}' needs a partition into {ranks} parts, has {found}")
        rows = self.rows(workload, ranks)
        if rows > MOST:
            fit = max(MOST * groups // rows, 1)
            raise UserError(f"distdgl: {groups} groups on {ranks} ranks take {rows:,} rows; set `groups: {fit}` or fewer")
        builder = Builder(self.name, ranks, 4 * workload.model.parameters * FP32, self.kind, kernels=kernels_of(workload, self.kind, ranks))
        parts = _Parts(workload, builder, partition, placement.iterations)
        unit = np.repeat(np.arange(groups), ranks)
        order = placement.iteration * (each + 1) + placement.slot
        site: Site = {"rank": parts.part, "unit": unit, "order": order[unit], "iteration": placement.iteration[unit]}
        first, last = parts.epoch(site)
        ends = []
        for handles in (first, last):
            table = np.full((placement.iterations, ranks, each), NONE, np.int64)
            table[placement.iteration[unit], parts.part, placement.slot[unit]] = handles
            ends.append(table)
        synchronise(builder, workload.model.parameters, *ends)
        return builder.finish()


class _Parts:
    """Cells of all groups and parts at once; a site is a (group, part)."""

    def __init__(self, workload: Workload, builder: Builder, partition: Partition, iterations: int) -> None:
        self.model, self.builder, self.ranks = workload.model, builder, partition.parts
        self.cells = Cells(workload.model, recomputes=False, parts=partition.parts > 1)
        self.part = np.tile(np.arange(self.ranks), workload.groups)
        unit = np.repeat(np.arange(workload.groups), self.ranks)
        start = workload.group_start(unit)
        summary = np.minimum(partition.rows[0], workload.model.hidden).sum()
        self.regions = []
        for step in range(workload.hyper.group_size):
            at = start + step, self.part
            columns = (partition.rows[at], partition.edges[at], partition.halo[at], partition.sent[at])
            self.regions.append(Region(*columns, np.full(len(unit), summary)))
        self.unit, self.groups, self.exchanges = unit, workload.groups, iterations

    def _together(self, op: Op, here: Site, row: Site, after: Ints) -> tuple[Ints]:
        """A collective of a group's ranks."""
        ids = {"collective": self.exchanges + self.unit}
        self.exchanges += self.groups
        return (self.builder.add(op, Lane.COMM, here, row, ids, after=(after,)),)

    def epoch(self, site: Site) -> tuple[Ints, Ints]:
        """Forward and backward passes; handles of each site's first and last row."""
        cells, steps, kernels = self.cells, range(len(self.regions)), self.builder.kernels
        before: tuple[Ints, ...] = ()
        first = np.full(len(self.part), NONE, np.int64)
        for step in steps:
            at = self.regions[step]
            for layer in range(self.model.layers):
                here = {**site, "step": step, "layer": layer}
                if layer == 0:
                    before = (self.builder.add(Op.H2D, Lane.H2D, here, cells.transfer(at), after=before),)
                    first = before[0] if step == 0 else first
                for op in stages(self.model, layer):
                    if op is Op.AGGREGATE and cells.parts:
                        before = self._together(Op.ALLTOALL, here, cells.halo(at, layer), before[0])
                    before = (self.builder.add(op, Lane.COMPUTE, here, cells.stage(op, at, layer), after=before),)
                    if op is Op.AGGREGATE and cells.gathers:
                        before = self._together(Op.ALLGATHER, here, cells.gather(at, layer), before[0])
        for step in reversed(steps):
            at = self.regions[step]
            for layer in reversed(range(self.model.layers)):
                here = {**site, "step": step, "layer": layer}
                row = cells.backward(at, layer, step == 0, step == steps[-1], received=False)
                before = (self.builder.add(Op.BACKWARD, Lane.COMPUTE, here, row, after=before),)
                if cells.returns(layer):
                    row = {**cells.halo_gradient(at, layer), "kernels": kernels.count("RETURN")}
                    before = self._together(Op.ALLTOALL, here, row, before[0])
                if cells.splits:
                    half = cells.backward_transform(at, layer)
                    row = {
                        **half,
                        "kernels": kernels.count("BACKWARD_TRANSFORM", upper=layer > 0),
                        "bytes": kernels.bytes("BACKWARD_TRANSFORM", upper=layer > 0, **{name: half[name] for name in DESCRIPTORS}),
                    }
                    before = (self.builder.add(Op.BACKWARD, Lane.COMPUTE, here, row, after=before),)
                if cells.gathers and layer:
                    row = {**cells.gather_gradient(at, layer), "kernels": kernels.count("RETURN_CANDIDATES")}
                    before = self._together(Op.ALLTOALL, here, row, before[0])
        return first, before[0]
