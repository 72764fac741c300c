"""DistDGL: every snapshot cut into vertex parts, one a rank (REAL §2.3, §7.1; Zheng et al., IA3 2020)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.costing.kernels import DESCRIPTORS
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.builder import NONE, Blocks, Builder
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.planning.recast import Recast
from chronoscale.strategies.planning.stretch import ROWS, Stretch
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.cell_memory import Region, stages
from chronoscale.strategies.snapshots.cells import Cells, synchronise
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.snapshots.targets import READOUT_KERNELS, pair_bytes, pair_flops, predicted_snapshots
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.strategy import MOST
from chronoscale.strategies.workload import Partition, Workload


class DistDGL(SnapshotStrategy):
    """DistDGL: planner whose ranks train every snapshot group together, each its own vertices; rows of remote neighbours are fetched for
    every snapshot and layer.

    Nothing overlaps: REAL appendix D.2 finds no overlap of computation and transfer.
    """

    name = "distdgl"
    title = "DistDGL"
    kind = "parts"
    source = "REAL §7.1 [66]"
    summary = "Every snapshot is cut into one vertex part a GPU; rows of remote neighbours are fetched for every layer."
    partitioned = True
    plans_incrementally = True

    def rows(self, workload: Workload, ranks: int) -> int:
        """Count the rows of DistDGL's plan before it is made: every rank has a part in every snapshot."""
        gathered = int(task_of(workload.hyper.task).pairs)
        return workload.groups * ranks * workload.hyper.group_size * (1 + gathered + 7 * workload.model.layers)

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch of DistDGL. Raises UserError for a workload that is no sequence of snapshots or without a partition into `ranks`
        parts, and for more rows than memory holds."""
        groups = workload.groups
        partition = self._partition(workload, ranks)
        rows = self.rows(workload, ranks)
        if rows > MOST:
            fit = max(MOST * groups // rows, 1)
            raise UserError(f"distdgl: {groups} groups on {ranks} ranks take {rows:,} rows; set `groups: {fit}` or fewer")
        builder = self._builder(workload, ranks)
        self._add_iterations(workload, builder, partition, np.arange(groups), opens=False)
        return builder.finish()

    def stretches(self, workload: Workload, ranks: int, costs: CostModel, rows: int = ROWS) -> Iterator[Stretch]:
        """Plan an epoch of DistDGL piece by piece, each of about `rows` rows; an iteration's first rows wait for the optimiser step before,
        all others for a row of their rank."""
        groups = workload.groups
        partition = self._partition(workload, ranks)
        each = workload.hyper.groups_per_rank
        size = each * max(1, rows * groups // (self.rows(workload, ranks) * each))
        recast, row = None, 0
        for begin in range(0, groups, size):
            units = np.arange(begin, min(begin + size, groups))
            if recast is not None and len(units) == size:
                self._add_iterations(workload, recast, partition, units, opens=True)
                schedule = recast.finish()
            else:
                builder = self._builder(workload, ranks)
                self._add_iterations(workload, builder, partition, units, opens=True)
                schedule = builder.finish()
                recast = recast or Recast(builder, schedule)
            yield Stretch(schedule, begin // each, row)
            row += len(schedule) - ranks

    def _partition(self, workload: Workload, ranks: int) -> Partition:
        """Return the workload's partition. Raises UserError unless it has one part a rank, and for 0 ranks."""
        partition = workload.partition
        deal(workload.groups, 1 if ranks else 0)  # refuses 0 ranks
        if partition is None or partition.parts != ranks:
            existing = "none" if partition is None else f"one into {partition.parts}"
            raise UserError(f"distdgl: '{workload.name}' needs a partition into {ranks} parts, has {existing}")
        return partition

    def _builder(self, workload: Workload, ranks: int) -> Builder:
        """Return an empty builder of this strategy's schedules."""
        goals = predicted_snapshots(workload, np.arange(workload.groups)).ravel()
        resident = 4 * workload.model.parameters * FP32 + pair_bytes(workload, np.zeros_like(goals), goals)
        return Builder(self.name, ranks, resident, self.kind, kernels=kernels_of(workload, self.kind, ranks))

    def _add_iterations(self, workload: Workload, builder: Blocks, partition: Partition, units: Ints, opens: bool) -> None:
        """Add the iterations of consecutive groups `units`, int64 [groups]; `opens`: preceded by the optimiser steps of the iteration
        before."""
        ranks, each = partition.parts, workload.hyper.groups_per_rank
        placement = deal(len(units), 1, each)
        parts = _Parts(workload, builder, partition, units, placement.iterations)
        at = np.repeat(np.arange(len(units)), ranks)
        order = placement.iteration * (each + 1) + placement.slot
        iteration = placement.iteration[at]
        site: Site = {"rank": parts.part, "unit": units[at], "order": order[at], "iteration": iteration + opens}
        first, last = (np.full((placement.iterations, ranks, each), NONE, np.int64) for _ in range(2))
        place = iteration, parts.part, placement.slot[at]
        first[place], last[place] = parts.epoch(site)
        synchronise(builder, workload.model.parameters, first, last, opens)


class _Parts:
    """Cells of some groups and of all vertex parts at once; columns have one entry a (group, part)."""

    def __init__(self, workload: Workload, builder: Blocks, partition: Partition, units: Ints, iterations: int) -> None:
        self.model = workload.model
        self.builder = builder
        self.ranks = partition.parts
        self.cells = Cells(workload.model, recomputes=False, parts=partition.parts > 1)
        self.part = np.tile(np.arange(self.ranks), len(units))
        start = workload.group_start(units)
        summary = np.minimum(partition.rows[0], workload.model.hidden).sum()
        self.regions = []
        for step in range(workload.hyper.group_size):
            at = start + step
            rows, edges, halo, sent = (column[at].ravel() for column in (partition.rows, partition.edges, partition.halo, partition.sent))
            self.regions.append(Region(rows, edges, halo, sent, np.full(len(self.part), summary)))
        self.total = workload.snapshots.num_nodes * self.cells.parts * task_of(workload.hyper.task).pairs  # gathered, of a predicting step
        goals = np.repeat(predicted_snapshots(workload, units), self.ranks, axis=0)
        self.predicting = len(self.regions) - goals.shape[1]  # the first step that predicts
        self.decoded = [pair_flops(workload, goal, self.regions[-1].rows) for goal in goals.T]
        self.group = np.repeat(np.arange(len(units)), self.ranks)
        self.groups = len(units)
        self.exchanges = iterations

    def _add_collective(self, op: Op, here: Site, row: Site, after: Ints) -> tuple[Ints]:
        """Add a collective of all ranks for every group, and return its handles."""
        ids = {"collective": self.exchanges + self.group}
        self.exchanges += self.groups
        return (self.builder.add(op, Lane.COMM, here, row, ids, after=(after,)),)

    def epoch(self, site: Site) -> tuple[Ints, Ints]:
        """Add the forward and backward passes of all groups; return handles of each (group, part)'s first and last row."""
        cells = self.cells
        steps = range(len(self.regions))
        kernels = self.builder.kernels
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
                        before = self._add_collective(Op.ALLTOALL, here, cells.halo(at, layer), before[0])
                    before = (self.builder.add(op, Lane.COMPUTE, here, cells.stage(op, at, layer, step == 0), after=before),)
                    if op is Op.AGGREGATE and cells.gathers:
                        before = self._add_collective(Op.ALLGATHER, here, cells.gather(at, layer), before[0])
            if self.total and step >= self.predicting:
                above: Site = {**site, "step": step, "layer": self.model.layers, "kernels": READOUT_KERNELS}
                readouts = cells.gather_readouts(at, np.full(len(self.part), self.total))
                before = self._add_collective(Op.ALLGATHER, above, readouts, before[0])
        for step in reversed(steps):
            at = self.regions[step]
            for layer in reversed(range(self.model.layers)):
                here = {**site, "step": step, "layer": layer}
                row = cells.backward(at, layer, step == 0, step == steps[-1], received=False, predicts=step >= self.predicting)
                if layer + 1 == self.model.layers and step >= self.predicting:
                    row = cells.with_pairs(row, self.total, self.decoded[step - self.predicting])
                before = (self.builder.add(Op.BACKWARD, Lane.COMPUTE, here, row, after=before),)
                if cells.returns(layer):
                    row = {**cells.halo_gradient(at, layer), "kernels": kernels.count("RETURN")}
                    before = self._add_collective(Op.ALLTOALL, here, row, before[0])
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
                    before = self._add_collective(Op.ALLTOALL, here, row, before[0])
        return first, before[0]
