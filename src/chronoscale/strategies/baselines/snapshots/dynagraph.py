"""DynaGraph: sliding windows of sampled snapshots, aggregates cached, vertices dealt anew every epoch (FlareDTDG §2.2, §4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chronoscale.batching.snapshots.sampling import NeighbourSampling, SampleCounts
from chronoscale.errors import UserError
from chronoscale.strategies.baselines.snapshots.dynahb_modelled import handles_before
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.builder import NONE, Builder
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.cell_memory import Region, stages
from chronoscale.strategies.snapshots.cell_variants import CellAggregate
from chronoscale.strategies.snapshots.cells import Cells
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import ENTRY, FP32, Columns
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.trained_work import TrainedWork, trained_work
from chronoscale.strategies.workload import Hyper, Workload

MOST = 30_000_000  # rows: some 12 GB while they are built
FANOUT = 10  # neighbours of a node where none are asked for
AHEAD = 2  # iterations whose snapshots are on their way or on the device


def sampling_of(hyper: Hyper, epoch: int = 0) -> NeighbourSampling:
    """Return how DynaGraph samples neighbours in an epoch: one subgraph of each snapshot, which all layers read; 10 neighbours where the
    experiment asks for no number.

    Raises UserError for fan-outs that differ by layer, or below 1.
    """
    if len(set(hyper.fanout)) > 1:
        fanouts = ", ".join(map(str, hyper.fanout))
        raise UserError(f"fanout: dynagraph samples a snapshot once for all layers, so expected one number, got {fanouts}")
    return NeighbourSampling(hyper.fanout[0] if hyper.fanout else FANOUT, hyper.seed, epoch)


class DynaGraph(SnapshotStrategy):
    """DynaGraph: planner of windows of sampled snapshots, as long as FlareDTDG's windows; a rank has its own vertices and their sampled
    in-edges.

    What the first layer aggregates depends on no parameter, so it is aggregated when its snapshot comes, and cached for as long as windows
    have it. The recurrence runs over every window from the zero state. Nothing overlaps but transfers.
    """

    name = "dynagraph"
    title = "DynaGraph"
    kind = "sampled"
    source = "FlareDTDG §2.2, §4.1 [10]"
    summary = "GPUs share the vertices of sliding windows of sampled snapshots, and keep what the first layer has aggregated."
    chunked = True
    everywhere = True

    def rows(self, workload: Workload, ranks: int) -> int:
        """Count the rows of DynaGraph's plan before it is made: every rank has a part in every snapshot of every window."""
        length, layers = workload.hyper.recency.decay.window, workload.model.layers
        return max(workload.steps - length + 1, 0) * ranks * (length * 6 * layers + 5) + ranks * (1 + 6 * length)

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan the first epoch of DynaGraph; samples and vertex assignments of later ones, and so their counts, differ a little.

        Raises UserError for a window that is longer than the sequence, models that attend or summarise (GAT, EvolveGCN-H), fan-outs that
        `sampling_of` refuses, and more rows than memory holds.
        """
        workload.snapshots  # noqa: B018 (refuses other families)
        if ranks < 1:
            raise UserError(f"at least one GPU is needed, got {ranks}")
        if workload.model.transforms_first or workload.model.summarises:
            reason = "attends" if workload.model.transforms_first else "reads all features in every step"
            raise UserError(f"{self.name}: model '{workload.model.name}' {reason}; cached aggregates take graph convolutions")
        if workload.chunking is None:
            raise UserError(f"{self.name}: '{workload.name}' needs its graphs' degrees, has none")
        if (rows := self.rows(workload, ranks)) > MOST:
            fit = max(MOST * workload.groups // rows, 1)
            raise UserError(f"{self.name}: its windows on {ranks} ranks take {rows:,} rows; set `groups: {fit}` or fewer")
        samples = workload.chunking.count_samples(sampling_of(workload.hyper), ranks)
        return _Plan(self.name, workload, ranks, samples).schedule()

    def trained_work(self, workload: Workload, schedule: Schedule) -> TrainedWork:
        """Return what the first epoch trains on: the snapshot after each window, or, where weights evolve, that after each of its
        snapshots."""
        hyper, sampling = workload.hyper, sampling_of(workload.hyper)
        length = hyper.recency.decay.window
        newest = np.arange(length - 1, workload.within(hyper.recency.decay))
        ages = np.arange(length if workload.model.predicts_each else 1)
        target = newest[:, None] - ages + hyper.horizon
        formulas = f"windows of {length}, {sampling.fanout} sampled neighbours"
        return trained_work(np.repeat(np.arange(len(newest)), len(ages)), target.ravel(), workload.snapshots.num_nodes, formulas)


@dataclass(frozen=True)
class _Plan:
    """The quantities that an epoch of DynaGraph is planned from; columns have one entry a (rank, iteration), int64 [iterations * ranks]."""

    name: str
    workload: Workload
    ranks: int
    samples: SampleCounts

    @cached_property
    def length(self) -> int:
        """The number of snapshots in a window."""
        return self.workload.hyper.recency.decay.window

    @cached_property
    def newest(self) -> Ints:
        """The newest snapshot of each iteration, int64 [iterations]: one window slides over the sequence."""
        decay = self.workload.hyper.recency.decay
        return np.arange(decay.window - 1, self.workload.within(decay))

    @cached_property
    def first(self) -> NDArray[np.bool_]:
        """Mask of the entries of the first window, bool [iterations * ranks]."""
        return np.asarray(self.site["iteration"] == 0)

    @cached_property
    def last(self) -> NDArray[np.bool_]:
        """Mask of the entries of the last window, bool [iterations * ranks]."""
        return np.asarray(self.site["iteration"] == len(self.newest) - 1)

    @cached_property
    def cells(self) -> Cells:
        """The row descriptors of the model's cells."""
        return Cells(self.workload.model, recomputes=False, parts=self.ranks > 1)

    @cached_property
    def site(self) -> dict[str, Ints]:
        """The columns rank, iteration, unit and order of every (rank, iteration)."""
        iteration = np.repeat(np.arange(len(self.newest)), self.ranks)
        return {"rank": np.tile(np.arange(self.ranks), len(self.newest)), **dict.fromkeys(("iteration", "unit", "order"), iteration)}

    def region(self, step: int) -> Region:
        """Return the ranks' parts of the snapshots at one place of the window (0: the oldest)."""
        snapshot, samples = self.newest - (self.length - 1 - step), self.samples
        rows = np.tile(samples.rows, len(snapshot))
        edges, halo, sent = (column[snapshot].ravel() for column in (samples.edges, samples.halo, samples.sent))
        return Region(rows, edges, halo, sent, np.zeros_like(rows))

    def comes(self, step: int) -> NDArray[np.bool_]:
        """Return whether the snapshot at a place of the window is sent, bool [iterations * ranks]: the newest always, all in the first
        window."""
        return self.first | (step + 1 == self.length)

    def schedule(self) -> Schedule:
        """Return the schedule of the epoch."""
        work, parameters = self.workload, self.workload.model.parameters
        kernels = kernels_of(replace(work, hyper=replace(work.hyper, group_size=self.length)), "parts", self.ranks)
        host = int(self.samples.rows.max()) * self.width * FP32
        builder = Builder(self.name, self.ranks, 4 * parameters * FP32, DynaGraph.kind, host, kernels=kernels)
        rows = _WindowRows(self, builder)
        rows.deal()
        rows.forward()
        rows.backward()
        rows.update()
        return builder.finish()

    @property
    def width(self) -> int:
        """The numbers that a rank keeps of a node: its input features, of every snapshot where they change."""
        changing = self.workload.steps if task_of(self.workload.hyper.task).varies else 1
        return self.workload.model.inputs * changing


class _WindowRows:
    """The rows of an epoch of DynaGraph, each of which waits for the one added before it."""

    def __init__(self, plan: _Plan, builder: Builder) -> None:
        self.plan = plan
        self.builder = builder
        self.cells = plan.cells
        self.model, self.sites = plan.workload.model, len(plan.newest) * plan.ranks
        self.last = self.begun = np.full(self.sites, NONE, np.int64)
        self.exchanges = 0
        self.sampled: list[Ints] = []

    def deal(self) -> None:
        """Add the exchange that sends input features to the ranks that the epoch's assignment gives their nodes."""
        plan, samples = self.plan, self.plan.samples
        if plan.ranks == 1:
            return
        incoming, outgoing = (column * plan.width * FP32 for column in (samples.arriving, samples.leaving))
        row: Columns = {"nodes": samples.rows, "rows": samples.arriving, "width": np.full_like(incoming, plan.width), "bytes": incoming}
        here: Site = {"rank": np.arange(plan.ranks), "iteration": 0, "order": -1, "collective": 0}
        handles = self.builder.add(Op.ALLTOALL, Lane.COMM, here, row, {"alloc": incoming + outgoing, "free": incoming + outgoing})
        self.exchanges = 1
        self.dealt = np.concatenate([handles, np.full(self.sites - plan.ranks, NONE, np.int64)])

    def forward(self) -> None:
        """Add the rows that sample and send snapshots and aggregate them, then those of every layer of every snapshot of the window."""
        plan, cells = self.plan, self.cells
        arrivals = [self._add_snapshot(step) for step in range(plan.length)]
        for step in range(plan.length):
            at = plan.region(step)
            for layer in range(self.model.layers):
                where = plan.comes(step) if layer == 0 else None
                for op in stages(self.model, layer):
                    aggregates = op is Op.AGGREGATE
                    if aggregates and plan.ranks > 1:
                        self._add(Op.ALLTOALL, step, layer, cells.halo(at, layer), where, arrivals[step] if layer == 0 else None)
                    row = cells.stage(op, at, layer, step == 0)
                    if aggregates and layer == 1:
                        row["variant"] = np.where(plan.comes(step), CellAggregate.TURNED, CellAggregate.TRACKED)
                    if aggregates and layer == 0 and self.model.layers == 1:
                        row = {**row, "free": row["free"] + self._graph_bytes(step)}
                    early = arrivals[step] if aggregates and layer == 0 and plan.ranks == 1 else None
                    self._add(op, step, layer, row, where if aggregates else None, early)

    def backward(self) -> None:
        """Add the gradient rows, the newest snapshot's first; what is cached of a snapshot is freed when no window has it any more."""
        plan = self.plan
        cells = self.cells
        end, predicts = self.plan.length - 1, self.model.predicts_each
        for step in reversed(range(plan.length)):
            at = plan.region(step)
            for layer in reversed(range(self.model.layers)):
                row = cells.backward(at, layer, step == 0, step == end, received=False, predicts=predicts or step == end)
                if layer == 0:
                    graph, cached = self._graph_bytes(step), at.rows * self.model.inputs * FP32
                    leaves = (plan.last | (step == 0)) * (cached + graph * (self.model.layers > 1))
                    row = {**row, "free": row["free"] - graph - cached + leaves}
                self._add(Op.BACKWARD, step, layer, row)
                if cells.returns(layer):
                    law = {"kernels": self.builder.kernels.count("RETURN")}
                    self._add(Op.ALLTOALL, step, layer, {**cells.halo_gradient(at, layer), **law})

    def update(self) -> None:
        """Add the all-reduce and the optimiser step, and link what waits for them."""
        plan, count = self.plan, self.model.parameters
        if plan.ranks > 1:
            self._add(Op.ALLREDUCE, NONE, NONE, {"bytes": np.full(1, count * FP32)})
        self._add(Op.OPTIMIZE, NONE, NONE, {name: np.full(1, size) for name, size in optimizer_work(count).items()})
        self.builder.link(self.begun, handles_before(self.last, plan.ranks))
        for handle in self.sampled:
            self.builder.link(handle, handles_before(self.last, AHEAD * plan.ranks))

    def _add_snapshot(self, step: int) -> Ints:
        """Add the rows that sample a snapshot and send it with the input features of own rows; return handles of the transfer."""
        plan, at = self.plan, self.plan.region(step)
        here: Site = {**plan.site, "step": step, "layer": 0}
        comes = plan.comes(step)
        row = self.cells.transfer(at)
        candidates = plan.samples.candidates[plan.newest - (plan.length - 1 - step)].ravel()
        read = {"nodes": at.rows, "edges": candidates, "rows": row["edges"], "bytes": ENTRY * candidates + 2 * row["bytes"]}
        self.sampled.append(self.builder.add(Op.SAMPLE, Lane.HOST, here, read, where=comes))
        sent = self.builder.add(Op.H2D, Lane.H2D, here, row, where=comes, after=(self.sampled[-1],))
        if plan.ranks > 1:
            self.builder.link(self.sampled[-1], self.dealt)
        return sent

    def _graph_bytes(self, step: int) -> Ints:
        """Return the bytes of a snapshot's adjacency, int64 [iterations * ranks]."""
        row = self.cells.transfer(self.plan.region(step))
        return np.asarray(row["bytes"] - row["rows"] * self.model.inputs * FP32)

    def _add(self, op: Op, step: int, layer: int, row: Columns, where: NDArray[np.bool_] | None = None, after: Ints | None = None) -> None:
        """Add a row that waits for the one added last and for `after`; on all entries, or those `where` there is one."""
        here: Site = {**self.plan.site, "step": step, "layer": layer}
        together, lane = op in (Op.ALLTOALL, Op.ALLREDUCE), Lane.COMPUTE
        if together:
            here, lane = {**here, "collective": self.exchanges + np.asarray(here["iteration"])}, Lane.COMM
            self.exchanges += len(self.plan.newest)
        waits = (self.last,) if after is None else (self.last, after)
        handles = self.builder.add(op, lane, here, row, where=where, after=waits)
        there = handles >= 0
        self.begun = np.where(there & (self.begun < 0), handles, self.begun)
        self.last = np.where(there, handles, self.last)


def optimizer_work(parameters: int) -> dict[str, int]:
    """Return the work columns of an optimiser step in a plan (Adam: ten operations a parameter)."""
    return {"rows": parameters, "flops": 10 * parameters}
