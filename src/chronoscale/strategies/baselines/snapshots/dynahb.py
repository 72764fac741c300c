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
from chronoscale.strategies.baselines.snapshots.dynahb_modelled import Hops, ModelledDynaHB, earlier, lowered
from chronoscale.strategies.baselines.snapshots.shares import Owed, Work, distinct
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32, Columns
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.workload import Hyper, Workload

COUNTED = 4096  # batches of an epoch on all ranks that are counted one by one; more are reckoned from statistics
TOLD = 3  # numbers that travel with the parameters: the loss, and the size of a batch to come
LEAD = 2  # iterations before its own that a batch is chosen, so that it is gathered ahead
CHOSEN = "all batches are as large as the first; sizes are chosen where a model is trained"


@dataclass(frozen=True, slots=True)
class Choice:
    """The size of a hybrid batch, powers of two: snapshots of its window, and own nodes."""

    window: int
    vertices: int


def most(hyper: Hyper, snapshots: int, vertices: int) -> Choice:
    """The largest batch: as many snapshots as FlareDTDG's windows have, rounded down; all of the largest part."""
    window = min(hyper.recency.decay.window, snapshots)
    return Choice(1 << (window.bit_length() - 1), 1 << max(vertices - 1, 0).bit_length())


def start(limit: Choice) -> Choice:
    """The first batch: the longest window, a quarter of the nodes."""
    return Choice(limit.window, max(limit.vertices // 4, 1))


def iterations(first: Choice, snapshots: int, vertices: int) -> int:
    """Of an epoch: as many as it takes first batches to hold every node of the largest part in every snapshot once."""
    return -(-snapshots // first.window) * -(-max(vertices, 1) // first.vertices)


class DynaHB(SnapshotStrategy):
    """Every rank trains on batches of its own nodes in a random window; features of all that they reach come from its host's cache.

    Parameters are averaged beside the next iteration, and taken up after it: iteration i begins with the mean over ranks of what i - 2
    had left, and the rank's own step of i - 1. The sizes of batches are chosen while training.
    """

    name, title, kind = "dynahb", "DynaHB", "hybrid"
    source = "Song et al.; PVLDB 17(11), 2024; FlareDTDG §2.2, §4.1"
    chunked = True
    everywhere = True

    def rows(self, workload: Workload, ranks: int) -> int:
        """Every rank has a batch in every iteration."""
        if workload.chunking is None:
            return super().rows(workload, ranks)
        limit = most(workload.hyper, max(workload.steps, 1), -(-workload.snapshots.num_nodes // ranks))
        count = iterations(start(limit), workload.steps, -(-workload.snapshots.num_nodes // ranks))
        return count * ranks * (limit.window * (3 * workload.model.layers + 2) + 3) + ranks

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """The first epoch, were all its batches as large as the first. Raises UserError for another family, 0 ranks, fewer chunks than
        ranks, a window that is longer than the sequence, and models that attend or summarise."""
        model = workload.model
        if workload.chunking is None:
            return ModelledDynaHB().plan(workload, ranks, costs)
        workload.snapshots  # noqa: B018 (refuses other families)
        if ranks < 1:
            raise UserError(f"at least one GPU is needed, got {ranks}")
        if model.transforms_first or model.summarises:
            said = "attends" if model.transforms_first else "reads all nodes in every step"
            raise UserError(f"{self.name}: model '{model.name}' {said}; batches take graph convolutions")
        workload.within(workload.hyper.recency.decay)
        chunking = workload.chunking
        counted = chunking if isinstance(chunking, ExactChunking) and chunking.factor == 1 else None
        parts = None if counted is None else parts_of(counted, ranks)
        sizes = np.bincount(parts, minlength=ranks) if parts is not None else np.full(ranks, -(-workload.snapshots.num_nodes // ranks))
        limit = most(workload.hyper, workload.steps, int(sizes.max()))
        first = start(limit)
        count = iterations(first, workload.steps, int(sizes.max()))
        if counted is not None and parts is not None and count * ranks <= COUNTED:
            hops, host = _exact(workload, counted, parts, ranks, first, count)
            note = ""
        else:
            hops, host = _reckoned(workload, ranks, first, count)
            note = "; neighbourhoods are reckoned from counts"
        return replace(_lowered(workload, ranks, hops, host), note=f"{CHOSEN}{note}")


def parts_of(counted: ExactChunking, ranks: int) -> Ints:
    """The rank of every node, int64 [N]: METIS's chunks, consecutive ones together. Raises UserError for fewer chunks than ranks."""
    chunks = counted.chunks
    if chunks.count < ranks:
        raise UserError(f"training.chunks: {chunks.count} chunks cannot be shared by {ranks} ranks; ask for {ranks} or more")
    return rank_of(chunks.count, ranks)[chunks.assignment]


def _exact(workload: Workload, counted: ExactChunking, parts: Ints, ranks: int, first: Choice, count: int) -> tuple[list[Hops], int]:
    """What the batches of the first epoch reach, a `Hops` a step of the window; and bytes of the largest cache."""
    model, there = workload.model, [counted.snapshots[t] for t in range(workload.steps)]
    own, draws = [np.flatnonzero(parts == rank) for rank in range(ranks)], WindowBatches(workload.hyper.seed, 0)
    found = []
    for iteration in range(count):
        for rank in range(ranks):
            begin, batch = draws.draw(own[rank], len(there), first.window, first.vertices, iteration, rank)
            found.append(ReceptiveField.of(there[begin : begin + first.window], batch, model.layers))
    rows = tuple(np.array([len(one.rows[layer]) for one in found]) for layer in range(model.layers))
    hops = []
    for step in range(first.window):
        edges = tuple(np.array([one.edges[step, layer] for one in found]) + rows[layer] for layer in range(model.layers))
        hops.append(Hops(rows, edges, np.array([len(one.inputs[step]) for one in found])))
    varies, held = task_of(workload.hyper.task).varies, [count_cached_rows(there, nodes, model.layers) for nodes in own]
    return hops, max(sum(one[:-1]) if varies else one[-1] for one in held) * model.inputs * FP32


def _reckoned(workload: Workload, ranks: int, first: Choice, count: int) -> tuple[list[Hops], int]:
    """As `_exact`, of the mean snapshot: in-neighbours of a batch are uniform draws among the active nodes (`shares.distinct`)."""
    stats, model = workload.snapshots, workload.model
    edges, active = (int(column[: workload.steps].mean()) for column in (stats.edges, stats.nodes))

    def reached(batch: int, times: int) -> tuple[list[int], int]:
        rows = [batch]
        for layer in range(model.layers):
            drawn = rows[0] * edges * (times if layer + 1 < model.layers else 1) // max(stats.num_nodes, 1)
            rows.insert(0, min(rows[0] + int(distinct(np.array([active]), np.array([drawn]))[0]), stats.num_nodes))
        return rows[1:], rows[0]

    rows, inputs = reached(min(first.vertices, -(-stats.num_nodes // ranks)), first.window)
    same = np.ones(count * ranks, np.int64)
    columns = tuple(n * same for n in rows)
    hops = Hops(columns, tuple(n * edges // max(stats.num_nodes, 1) + n for n in columns), inputs * same)
    varies = task_of(workload.hyper.task).varies
    cache = reached(-(-stats.num_nodes // ranks), workload.steps)[1] * (workload.steps if varies else 1)
    return [hops] * first.window, cache * model.inputs * FP32


def _lowered(workload: Workload, ranks: int, hops: list[Hops], host: int) -> Schedule:
    """The rows of an epoch; a site is a rank and iteration."""
    model, kernels, sites = workload.model, kernels_of(workload), len(hops[0].inputs)
    work = Work(model, kernels)
    builder = Builder(DynaHB.name, ranks, 4 * model.parameters * FP32, DynaHB.kind, host, kernels=kernels)
    iteration = np.arange(sites) // ranks
    site: Columns = {"rank": np.arange(sites) % ranks, **dict.fromkeys(("iteration", "order", "unit"), iteration)}
    owed, gathers, loads = Owed.none(sites), [], []
    for step, found in enumerate(hops):
        here: Columns = {**site, "step": np.full(sites, step)}
        copied = 2 * found.inputs * model.inputs * FP32
        gathers.append(builder.add(Op.GATHER, Lane.HOST, here, {"nodes": found.inputs, "rows": found.inputs, "bytes": copied}))
        loaded = work.batch(found.rows, found.edges, found.inputs)
        loads.append(builder.add(Op.H2D, Lane.H2D, here, loaded, after=(gathers[-1],)))
        owed.add(loaded, 0)
    for step, found in enumerate(hops):
        here = {**site, "step": np.full(sites, step)}
        lowered(builder, work, here, found, np.ones(sites, np.int64), owed, (loads[step],))
    builder.add(Op.BACKWARD, Lane.COMPUTE, site, owed.columns(model.hidden))
    updated = builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, work.optimize())
    builder.link(gathers[0], earlier(updated, LEAD * ranks))
    if ranks > 1:
        told: Site = {"bytes": (model.parameters + TOLD) * FP32, "collective": iteration}
        summed = builder.add(Op.ALLREDUCE, Lane.COMM, site, told, after=(updated,))
        builder.link(updated, earlier(summed, ranks))
        end: Site = {"rank": np.arange(ranks), **dict.fromkeys(("iteration", "order", "unit"), iteration[-1])}
        taken = {"bytes": 2 * model.parameters * FP32, "rows": model.parameters, "kernels": 1}
        builder.add(Op.COPY, Lane.COMPUTE, end, taken, after=(summed[-ranks:],))
    return builder.finish()
