"""DynaHB: hybrid batches from a vertex cache on the host, without exchange between GPUs but parameters (Song et al.; PVLDB 2024).

Planned from the graphs where they are at hand, from counts else. Statistics alone are planned as `dynahb_modelled` says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.batching.snapshots.chunks import ExactChunking
from chronoscale.batching.snapshots.receptive_field import ReceptiveField, WindowBatches, count_cached_rows
from chronoscale.batching.snapshots.survival import rank_of
from chronoscale.errors import UserError
from chronoscale.strategies.baselines.snapshots.dynahb_modelled import HopCounts, ModelledDynaHB, add_layers, handles_before
from chronoscale.strategies.baselines.snapshots.vertex_shares import BackwardWork, ShareWork, expected_distinct
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32, Columns
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.trained_work import TrainedWork, trained_work
from chronoscale.strategies.workload import Hyper, Workload

COUNTED = 4096  # batches of an epoch on all ranks that are counted one by one; more are reckoned from statistics
TOLD = 3  # numbers that travel with the parameters: the loss, and the size of a batch to come
PART = 4  # of a rank's vertices, one is the first batch
LEAD = 2  # iterations before its own that a batch is chosen, so that it is gathered ahead
CHOSEN = "all batches are as large as the first; sizes are chosen where a model is trained"


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Size of one of DynaHB's hybrid batches, both powers of two: the number of snapshots in its window, and of a rank's own vertices."""

    window: int
    vertices: int


def largest_batch(hyper: Hyper, snapshots: int, vertices: int) -> BatchSize:
    """Return the largest hybrid batch that DynaHB tries: the snapshots of a FlareDTDG window, and all vertices of the largest part
    (`vertices`), the first rounded down to a power of two, the second up."""
    window = min(hyper.recency.decay.window, snapshots)
    return BatchSize(1 << (window.bit_length() - 1), 1 << max(vertices - 1, 0).bit_length())


def first_batch(limit: BatchSize, part: int = PART) -> BatchSize:
    """Return the hybrid batch with which DynaHB begins training: the longest window, one `part`-th of the vertices."""
    return BatchSize(limit.window, max(limit.vertices // part, 1))


def iterations_per_epoch(first: BatchSize, snapshots: int, vertices: int) -> int:
    """Return how many hybrid batches of the first size DynaHB needs to train every vertex of the largest part (`vertices`) in every
    snapshot once."""
    return -(-snapshots // first.window) * -(-max(vertices, 1) // first.vertices)


@dataclass(frozen=True)
class DynaHB(SnapshotStrategy):
    """DynaHB: planner whose ranks train batches of their own vertices in random windows of snapshots, with all features that these reach
    from a cache on the host.

    Parameters are averaged beside the next iteration, and taken up after it: iteration i begins with the mean over ranks of what i - 2
    left, and the rank's own step of i - 1. Batch sizes are chosen while training (by reinforcement learning in the paper).

    part: a batch is planned with one `part`-th of a rank's vertices.
    """

    part: int = PART

    name = "dynahb"
    title = "DynaHB"
    kind = "hybrid"
    source = "Song et al.; PVLDB 17(11), 2024; FlareDTDG §2.2, §4.1"
    summary = "Each GPU trains batches of its own vertices from a cache on its host; only parameters are exchanged."
    chunked = True
    everywhere = True

    def rows(self, workload: Workload, ranks: int) -> int:
        """Count the rows of DynaHB's plan before it is made: every rank has a batch in every iteration."""
        if workload.chunking is None:
            return super().rows(workload, ranks)
        limit = largest_batch(workload.hyper, max(workload.steps, 1), -(-workload.snapshots.num_nodes // ranks))
        count = iterations_per_epoch(first_batch(limit, self.part), workload.steps, -(-workload.snapshots.num_nodes // ranks))
        return count * ranks * (limit.window * (3 * workload.model.layers + 2) + 3) + ranks

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan the first epoch of DynaHB, were all its batches as large as the first; from statistics alone where the graphs are not at
        hand.

        Raises UserError for a workload that is no sequence of snapshots, 0 ranks, fewer vertex chunks than ranks, a window that is longer
        than the sequence, and models that attend or summarise (GAT, EvolveGCN-H).
        """
        model = workload.model
        if workload.chunking is None:
            return ModelledDynaHB().plan(workload, ranks, costs)
        workload.snapshots  # noqa: B018 (refuses other families)
        if ranks < 1:
            raise UserError(f"at least one GPU is needed, got {ranks}")
        if model.transforms_first or model.summarises:
            reason = "attends" if model.transforms_first else "reads all nodes in every step"
            raise UserError(f"{self.name}: model '{model.name}' {reason}; batches take graph convolutions")
        workload.within(workload.hyper.recency.decay)
        chunking = workload.chunking
        counted = chunking if isinstance(chunking, ExactChunking) and chunking.factor == 1 else None
        parts = None if counted is None else rank_of_nodes(counted, ranks)
        sizes = np.bincount(parts, minlength=ranks) if parts is not None else np.full(ranks, -(-workload.snapshots.num_nodes // ranks))
        first = first_batch(largest_batch(workload.hyper, workload.steps, int(sizes.max())), self.part)
        count = iterations_per_epoch(first, workload.steps, int(sizes.max()))
        if counted is not None and parts is not None and count * ranks <= COUNTED:
            hops, host = _count_hops(workload, counted, parts, ranks, first, count)
            note = ""
        else:
            hops, host = _estimate_hops(workload, ranks, first, count)
            note = "; neighbourhoods are reckoned from counts"
        return replace(_build_schedule(workload, ranks, hops, host), note=f"{CHOSEN}{note}")

    def trained_work(self, workload: Workload, schedule: Schedule) -> TrainedWork:
        """Return what the first epoch trains on, were all its batches as large as the first: vertices drawn by each rank from its own."""
        if workload.chunking is None:
            return super().trained_work(workload, schedule)
        ranks, vertices = schedule.ranks, workload.snapshots.num_nodes
        each = min(first_batch(largest_batch(workload.hyper, workload.steps, -(-vertices // ranks)), self.part).vertices, vertices)
        batches = np.arange(schedule.iterations * ranks)
        return trained_work(batches // ranks, batches, each, f"each of {ranks} ranks its own vertices, parameters averaged late")


def rank_of_nodes(counted: ExactChunking, ranks: int) -> Ints:
    """Return the rank on which DynaHB trains each node, int64 [N]: consecutive METIS chunks go to one rank. Raises UserError for fewer
    chunks than ranks."""
    chunks = counted.chunks
    if chunks.count < ranks:
        raise UserError(f"training.chunks: {chunks.count} chunks cannot be shared by {ranks} ranks; ask for {ranks} or more")
    return rank_of(chunks.count, ranks)[chunks.assignment]


def _count_hops(
    workload: Workload, counted: ExactChunking, parts: Ints, ranks: int, first: BatchSize, count: int
) -> tuple[list[HopCounts], int]:
    """Count the vertices and edges that every batch of the first epoch reaches in the graphs: one `HopCounts` a step of the window, and the
    bytes of the largest cache."""
    model, snapshots = workload.model, [counted.snapshots[t] for t in range(workload.steps)]
    own, draws = [np.flatnonzero(parts == rank) for rank in range(ranks)], WindowBatches(workload.hyper.seed, 0)
    reached = []
    for iteration in range(count):
        for rank in range(ranks):
            begin, batch = draws.draw(own[rank], len(snapshots), first.window, first.vertices, iteration, rank)
            reached.append(ReceptiveField.of(snapshots[begin : begin + first.window], batch, model.layers))
    rows = tuple(np.array([len(reach.rows[layer]) for reach in reached]) for layer in range(model.layers))
    hops = []
    for step in range(first.window):
        edges = tuple(np.array([reach.edges[step, layer] for reach in reached]) + rows[layer] for layer in range(model.layers))
        hops.append(HopCounts(rows, edges, np.array([len(reach.inputs[step]) for reach in reached])))
    varies, cached_rows = task_of(workload.hyper.task).varies, [count_cached_rows(snapshots, nodes, model.layers) for nodes in own]
    return hops, max(sum(reach[:-1]) if varies else reach[-1] for reach in cached_rows) * model.inputs * FP32


def _estimate_hops(workload: Workload, ranks: int, first: BatchSize, count: int) -> tuple[list[HopCounts], int]:
    """Estimate what batches reach from statistics of the mean snapshot: in-neighbours are uniform draws among active nodes. Returns the
    same as `_count_hops`."""
    stats, model = workload.snapshots, workload.model
    edges, active = (int(column[: workload.steps].mean()) for column in (stats.edges, stats.nodes))

    def reached(batch: int, times: int) -> tuple[list[int], int]:
        """Return the rows of every layer and of the inputs that a batch reaches; below the top layer edges of `times` snapshots count."""
        rows = [batch]
        for layer in range(model.layers):
            drawn = rows[0] * edges * (times if layer + 1 < model.layers else 1) // max(stats.num_nodes, 1)
            rows.insert(0, min(rows[0] + int(expected_distinct(np.array([active]), np.array([drawn]))[0]), stats.num_nodes))
        return rows[1:], rows[0]

    rows, inputs = reached(min(first.vertices, -(-stats.num_nodes // ranks)), first.window)
    same = np.ones(count * ranks, np.int64)
    columns = tuple(n * same for n in rows)
    hops = HopCounts(columns, tuple(n * edges // max(stats.num_nodes, 1) + n for n in columns), inputs * same)
    varies = task_of(workload.hyper.task).varies
    cache = reached(-(-stats.num_nodes // ranks), workload.steps)[1] * (workload.steps if varies else 1)
    return [hops] * first.window, cache * model.inputs * FP32


def _build_schedule(workload: Workload, ranks: int, hops: list[HopCounts], host: int) -> Schedule:
    """Return the schedule of an epoch from what its batches reach; columns have one entry a (rank, iteration)."""
    model = workload.model
    kernels = kernels_of(workload)
    sites = len(hops[0].inputs)
    work = ShareWork(model, kernels)
    builder = Builder(DynaHB.name, ranks, 4 * model.parameters * FP32, DynaHB.kind, host, kernels=kernels)
    iteration = np.arange(sites) // ranks
    site: Columns = {"rank": np.arange(sites) % ranks, **dict.fromkeys(("iteration", "order", "unit"), iteration)}
    owed = BackwardWork.none(sites)
    gathers = []
    loads = []
    for step, counts in enumerate(hops):
        here: Columns = {**site, "step": np.full(sites, step)}
        copied = 2 * counts.inputs * model.inputs * FP32
        gathers.append(builder.add(Op.GATHER, Lane.HOST, here, {"nodes": counts.inputs, "rows": counts.inputs, "bytes": copied}))
        loaded = work.batch(counts.rows, counts.edges, counts.inputs)
        loads.append(builder.add(Op.H2D, Lane.H2D, here, loaded, after=(gathers[-1],)))
        owed.add(loaded, 0)
    for step, counts in enumerate(hops):
        here = {**site, "step": np.full(sites, step)}
        add_layers(builder, work, here, counts, np.ones(sites, np.int64), owed, (loads[step],), step)
    builder.add(Op.BACKWARD, Lane.COMPUTE, site, owed.columns(model.hidden))
    updated = builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, work.optimize())
    builder.link(gathers[0], handles_before(updated, LEAD * ranks))
    if ranks > 1:
        message: Site = {"bytes": (model.parameters + TOLD) * FP32, "collective": iteration}
        summed = builder.add(Op.ALLREDUCE, Lane.COMM, site, message, after=(updated,))
        builder.link(updated, handles_before(summed, ranks))
        end: Site = {"rank": np.arange(ranks), **dict.fromkeys(("iteration", "order", "unit"), iteration[-1])}
        average = {"bytes": 2 * model.parameters * FP32, "rows": model.parameters, "kernels": 1}
        builder.add(Op.COPY, Lane.COMPUTE, end, average, after=(summed[-ranks:],))
    return builder.finish()
