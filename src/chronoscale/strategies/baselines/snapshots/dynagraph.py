"""DynaGraph: sliding windows of sampled snapshots, aggregates cached, vertices dealt anew every epoch (FlareDTDG §2.2, §4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chronoscale.batching.snapshots.sampling import NeighbourSampling, SampleCounts
from chronoscale.errors import UserError
from chronoscale.strategies.baselines.snapshots.dynahb_modelled import earlier
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.builder import NONE, Builder
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.cells import Cells, Region, stages
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import ENTRY, FP32, Columns
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.workload import Hyper, Workload

MOST = 30_000_000  # rows: some 12 GB while they are built
FANOUT = 10  # neighbours of a node where none are asked for
AHEAD = 2  # iterations whose snapshots are on their way or on the device


def sampling_of(hyper: Hyper, epoch: int = 0) -> NeighbourSampling:
    """Of an epoch: one subgraph a snapshot, which all layers read. Raises UserError for fan-outs that differ by layer, or below 1."""
    if len(set(hyper.fanout)) > 1:
        said = ", ".join(map(str, hyper.fanout))
        raise UserError(f"fanout: dynagraph samples a snapshot once for all layers, so expected one number, got {said}")
    return NeighbourSampling(hyper.fanout[0] if hyper.fanout else FANOUT, hyper.seed, epoch)


class DynaGraph(SnapshotStrategy):
    """Windows of whole snapshots, as many as FlareDTDG's windows have; own vertices and sampled in-edges of each are on a rank.

    What the first layer aggregates depends on no parameter, so it is aggregated when its snapshot comes, and kept for as long as windows
    have it. The recurrence runs over every window from the zero state. Nothing overlaps but transfers.
    """

    name, title, kind = "dynagraph", "DynaGraph", "sampled"
    source = "FlareDTDG §2.2, §4.1 [10]"
    chunked = True
    everywhere = True

    def rows(self, workload: Workload, ranks: int) -> int:
        """Every rank has a part in every snapshot of every window."""
        length, layers = workload.hyper.recency.decay.window, workload.model.layers
        return max(workload.steps - length + 1, 0) * ranks * (length * 6 * layers + 5) + ranks * (1 + 6 * length)

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """The first epoch; of later ones samples and deals, and so counts, differ a little. Raises UserError for a window that is longer
        than the sequence, models that attend or summarise, fan-outs as `sampling_of`, and more rows than memory holds."""
        workload.snapshots  # noqa: B018 (refuses other families)
        if ranks < 1:
            raise UserError(f"at least one GPU is needed, got {ranks}")
        if workload.model.transforms_first or workload.model.summarises:
            said = "attends" if workload.model.transforms_first else "reads all features in every step"
            raise UserError(f"{self.name}: model '{workload.model.name}' {said}; cached aggregates take graph convolutions")
        if workload.chunking is None:
            raise UserError(f"{self.name}: '{workload.name}' needs its graphs' degrees, has none")
        if (rows := self.rows(workload, ranks)) > MOST:
            fit = max(MOST * workload.groups // rows, 1)
            raise UserError(f"{self.name}: its windows on {ranks} ranks take {rows:,} rows; set `groups: {fit}` or fewer")
        samples = workload.chunking.count_samples(sampling_of(workload.hyper), ranks)
        return _Plan(self.name, workload, ranks, samples).schedule()


@dataclass(frozen=True)
class _Plan:
    """An epoch; a site is an iteration on a rank, columns are int64 [iterations * ranks]."""

    name: str
    workload: Workload
    ranks: int
    samples: SampleCounts

    @cached_property
    def length(self) -> int:
        """Snapshots of a window."""
        return self.workload.hyper.recency.decay.window

    @cached_property
    def newest(self) -> Ints:
        """Newest snapshot of each iteration, int64 [iterations]: one window slides over the sequence."""
        decay = self.workload.hyper.recency.decay
        return np.arange(decay.window - 1, self.workload.within(decay))

    @cached_property
    def first(self) -> NDArray[np.bool_]:
        """Sites of the first window."""
        return np.asarray(self.site["iteration"] == 0)

    @cached_property
    def last(self) -> NDArray[np.bool_]:
        """Sites of the last window."""
        return np.asarray(self.site["iteration"] == len(self.newest) - 1)

    @cached_property
    def cells(self) -> Cells:
        return Cells(self.workload.model, recomputes=False, parts=self.ranks > 1)

    @cached_property
    def site(self) -> dict[str, Ints]:
        iteration = np.repeat(np.arange(len(self.newest)), self.ranks)
        return {"rank": np.tile(np.arange(self.ranks), len(self.newest)), **dict.fromkeys(("iteration", "unit", "order"), iteration)}

    def region(self, step: int) -> Region:
        snapshot, found = self.newest - (self.length - 1 - step), self.samples
        rows = np.tile(found.rows, len(snapshot))
        edges, halo, sent = (column[snapshot].ravel() for column in (found.edges, found.halo, found.sent))
        return Region(rows, edges, halo, sent, np.zeros_like(rows))

    def comes(self, step: int) -> NDArray[np.bool_]:
        """Sites at which a step's snapshot comes: the newest always, all in the first window."""
        return self.first | (step + 1 == self.length)

    def schedule(self) -> Schedule:
        """All rows."""
        work, parameters = self.workload, self.workload.model.parameters
        kernels = kernels_of(replace(work, hyper=replace(work.hyper, group_size=self.length)), "parts", self.ranks)
        host = int(self.samples.rows.max()) * self.width * FP32
        builder = Builder(self.name, self.ranks, 4 * parameters * FP32, DynaGraph.kind, host, kernels=kernels)
        rows = _Rows(self, builder)
        rows.deal()
        rows.forward()
        rows.backward()
        rows.update()
        return builder.finish()

    @property
    def width(self) -> int:
        """Numbers that are kept of a node: its input features, of every snapshot where they change."""
        changing = self.workload.steps if task_of(self.workload.hyper.task).varies else 1
        return self.workload.model.inputs * changing


class _Rows:
    """The rows of an epoch, each after the one before it."""

    def __init__(self, plan: _Plan, builder: Builder) -> None:
        self.plan, self.builder, self.cells = plan, builder, plan.cells
        self.model, self.sites = plan.workload.model, len(plan.newest) * plan.ranks
        self.last = self.begun = np.full(self.sites, NONE, np.int64)
        self.exchanges = 0
        self.sampled: list[Ints] = []

    def deal(self) -> None:
        """Input features go to whom the epoch's deal gives their nodes."""
        plan, found = self.plan, self.plan.samples
        if plan.ranks == 1:
            return
        come, go = (column * plan.width * FP32 for column in (found.arriving, found.leaving))
        row: Columns = {"nodes": found.rows, "rows": found.arriving, "width": np.full_like(come, plan.width), "bytes": come}
        here: Site = {"rank": np.arange(plan.ranks), "iteration": 0, "order": -1, "collective": 0}
        handles = self.builder.add(Op.ALLTOALL, Lane.COMM, here, row, {"alloc": come + go, "free": come + go})
        self.exchanges = 1
        self.dealt = np.concatenate([handles, np.full(self.sites - plan.ranks, NONE, np.int64)])

    def forward(self) -> None:
        """Snapshots come, and are aggregated; then every layer of every snapshot of the window."""
        plan, cells = self.plan, self.cells
        came = [self._brought(step) for step in range(plan.length)]
        for step in range(plan.length):
            at = plan.region(step)
            for layer in range(self.model.layers):
                where = plan.comes(step) if layer == 0 else None
                for op in stages(self.model, layer):
                    aggregates = op is Op.AGGREGATE
                    if aggregates and plan.ranks > 1:
                        self._add(Op.ALLTOALL, step, layer, cells.halo(at, layer), where, came[step] if layer == 0 else None)
                    row = cells.stage(op, at, layer)
                    if aggregates and layer == 0 and self.model.layers == 1:
                        row = {**row, "free": row["free"] + self._graph(step)}
                    early = came[step] if aggregates and layer == 0 and plan.ranks == 1 else None
                    self._add(op, step, layer, row, where if aggregates else None, early)

    def backward(self) -> None:
        """Gradients, the newest snapshot's first. What is cached of a snapshot goes when no window has it any more."""
        plan, cells, end = self.plan, self.cells, self.plan.length - 1
        for step in reversed(range(plan.length)):
            at = plan.region(step)
            for layer in reversed(range(self.model.layers)):
                row = cells.backward(at, layer, step == 0, step == end, received=False)
                if layer == 0:
                    graph, kept = self._graph(step), at.rows * self.model.inputs * FP32
                    leaves = (plan.last | (step == 0)) * (kept + graph * (self.model.layers > 1))
                    row = {**row, "free": row["free"] - graph - kept + leaves}
                self._add(Op.BACKWARD, step, layer, row)
                if cells.returns(layer):
                    law = {"kernels": self.builder.kernels.count("RETURN")}
                    self._add(Op.ALLTOALL, step, layer, {**cells.halo_gradient(at, layer), **law})

    def update(self) -> None:
        """The step of the optimiser, and what waits for it."""
        plan, count = self.plan, self.model.parameters
        if plan.ranks > 1:
            self._add(Op.ALLREDUCE, NONE, NONE, {"bytes": np.full(1, count * FP32)})
        self._add(Op.OPTIMIZE, NONE, NONE, {name: np.full(1, size) for name, size in adam(count).items()})
        self.builder.link(self.begun, earlier(self.last, plan.ranks))
        for handle in self.sampled:
            self.builder.link(handle, earlier(self.last, AHEAD * plan.ranks))

    def _brought(self, step: int) -> Ints:
        """A snapshot sampled and sent, with the input features of own rows."""
        plan, at = self.plan, self.plan.region(step)
        here: Site = {**plan.site, "step": step, "layer": 0}
        comes = plan.comes(step)
        row = self.cells.transfer(at)
        candidates = plan.samples.candidates[plan.newest - (plan.length - 1 - step)].ravel()
        read = {"nodes": at.rows, "edges": candidates, "rows": row["edges"], "bytes": ENTRY * candidates + 2 * row["bytes"]}
        self.sampled.append(self.builder.add(Op.SAMPLE, Lane.HOST, here, read, where=comes))
        came = self.builder.add(Op.H2D, Lane.H2D, here, row, where=comes, after=(self.sampled[-1],))
        if plan.ranks > 1:
            self.builder.link(self.sampled[-1], self.dealt)
        return came

    def _graph(self, step: int) -> Ints:
        row = self.cells.transfer(self.plan.region(step))
        return np.asarray(row["bytes"] - row["rows"] * self.model.inputs * FP32)

    def _add(self, op: Op, step: int, layer: int, row: Columns, where: NDArray[np.bool_] | None = None, after: Ints | None = None) -> None:
        """The next row, of all sites or those `where` there is one."""
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


def adam(parameters: int) -> dict[str, int]:
    """Of an optimiser's step."""
    return {"rows": parameters, "flops": 10 * parameters}
