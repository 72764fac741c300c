"""DynaHB as a model from statistics, for simulation: batches of own vertices from a cache on the host (Song et al.; PVLDB 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.baselines.snapshots.vertex_shares import (
    BackwardWork,
    GroupBatches,
    ShareWork,
    expected_distinct,
    split_counts,
)
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.builder import NONE, Builder
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.cell_variants import stage_variant
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32, Columns
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True, eq=False)
class HopCounts:
    """Counts of what DynaHB's ranks read and compute for their own vertices, multi-hop neighbourhoods included, int64 [iterations * ranks]
    each; tuples have an entry a layer, layer 0 first.

    rows: vertices whose output a layer computes; edges: stored entries that it aggregates; inputs: vertices whose features are loaded.
    """

    rows: tuple[Ints, ...]
    edges: tuple[Ints, ...]
    inputs: Ints


class ModelledDynaHB(SnapshotStrategy):
    """DynaHB, modelled from statistics for simulation: vertices are divided evenly, and a rank gathers the multi-hop features of its own
    from host memory.

    Parameters are averaged through host memory: a rank pushes after its step and pulls the values of the iteration before the last, and
    waits for no other rank. Modelled, not measured: parts are balanced and cut like a random placement (load-aware partitioning balances
    work, not the cut), so a share 1 - 1/P of in-neighbours is remote, distinct as by uniform draws among the active nodes; a batch is a
    rank's whole part (what the reinforcement-learning batch adjuster would choose is unknown). Below the top layer remote rows are computed
    redundantly: `redundant` says how much. The pull takes the bus; the server's own arithmetic and memory traffic are free.
    """

    name = "dynahb"
    title = "DynaHB (modelled)"
    kind = "modelled"
    source = "Song et al.; PVLDB 17(11), 2024; REAL §1, Table 1"
    summary = "Each GPU trains its own vertices from a cache on its host; only parameters are exchanged."
    executes = False
    everywhere = True

    def hops(self, workload: Workload, ranks: int, step: int) -> HopCounts:
        """Estimate the multi-hop neighbourhoods that ranks need for their own vertices, in the snapshot at place `step` of an iteration's
        groups."""
        stats, batches = workload.snapshots, GroupBatches(workload, ranks)
        even = np.full(ranks, 1 / ranks)
        all_vertices = batches.groups * stats.num_nodes
        all_edges, all_rows = (np.repeat(c, ranks) for c in (batches.total(stats.edges, step), all_vertices))
        pool = np.floor(np.repeat(batches.total(stats.nodes, step), ranks) * (1 - 1 / ranks)).astype(np.int64)
        own = split_counts(all_vertices, even).ravel()
        needed, drawn = own, split_counts(batches.total(stats.edges, step), even).ravel()
        rows, edges = [], []
        for layer in reversed(range(workload.model.layers)):
            if layer < workload.model.layers - 1:  # mean degree
                drawn = np.floor(needed / np.maximum(all_rows, 1) * all_edges).astype(np.int64)
            rows.append(needed)
            edges.append(drawn + needed)
            crossing = np.floor(drawn * (1 - 1 / ranks)).astype(np.int64)
            needed = np.maximum(needed, np.minimum(own + expected_distinct(pool, crossing), all_rows))
        return HopCounts(tuple(rows[::-1]), tuple(edges[::-1]), needed)

    def redundant(self, workload: Workload, ranks: int) -> int:
        """Estimate how many edges DynaHB aggregates in an epoch, over all ranks, beyond those of the snapshot groups themselves: remote
        vertices are computed again on every rank that needs them."""
        steps = range(workload.hyper.group_size)
        groups = np.arange(workload.groups)
        stats = workload.snapshots
        aggregated = sum(int(layer.sum()) for step in steps for layer in self.hops(workload, ranks, step).edges)
        own = sum(int(stats.edges[workload.group_start(groups) + step].sum()) + workload.groups * stats.num_nodes for step in steps)
        return aggregated - workload.model.layers * own

    def cached_bytes(self, workload: Workload, ranks: int) -> int:
        """Estimate the host memory of all ranks' feature caches, bytes: features of every vertex that any snapshot of the fullest iteration
        needs."""
        each = [self.hops(workload, ranks, step).inputs.reshape(-1, ranks).sum(1) for step in range(workload.hyper.group_size)]
        return int(np.max(np.sum(each, axis=0))) * workload.model.inputs * FP32

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch of DynaHB from statistics. Raises UserError for a workload that is no sequence of snapshots, or 0 ranks."""
        workload.snapshots  # noqa: B018 (refuses other families)
        if ranks < 1:
            raise UserError(f"at least one GPU is needed, got {ranks}")
        model = workload.model
        kernels = kernels_of(workload)
        batches = GroupBatches(workload, ranks)
        work = ShareWork(model, kernels)
        builder = Builder(self.name, ranks, 4 * model.parameters * FP32, self.kind, kernels=kernels)
        iterations = len(batches.first)
        iteration, groups = np.repeat(np.arange(iterations), ranks), np.repeat(batches.groups, ranks)
        site: Columns = {
            "rank": np.tile(np.arange(ranks), iterations),
            "iteration": iteration,
            "order": iteration,
            "unit": np.repeat(batches.first, ranks),
        }
        sites, owed = len(iteration), BackwardWork.none(len(iteration))
        parameters = {"bytes": model.parameters * FP32, "rows": model.parameters}
        pulled = builder.add(Op.H2D, Lane.H2D, site, parameters) if ranks > 1 else np.full(sites, NONE, np.int64)
        gathers = []
        loads = []
        last = pulled
        for step in range(workload.hyper.group_size):
            counts = self.hops(workload, ranks, step)
            here: Columns = {**site, "step": np.full(sites, step)}
            copied = 2 * counts.inputs * model.inputs * FP32
            gathers.append(builder.add(Op.GATHER, Lane.HOST, here, {"nodes": counts.inputs, "rows": counts.inputs, "bytes": copied}))
            loaded = work.load(counts.rows[0], counts.edges[0], counts.inputs)
            loads.append(builder.add(Op.H2D, Lane.H2D, here, loaded, after=(gathers[-1],)))
            owed.add(loaded, 0)
            last = add_layers(builder, work, here, counts, groups, owed, (loads[-1], pulled))
        backward = builder.add(Op.BACKWARD, Lane.COMPUTE, site, owed.columns(model.hidden), after=(last,))
        updated = builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, work.optimize())
        builder.link(gathers[0], handles_before(loads[-1], ranks))  # one batch ahead of the bus
        builder.link(loads[0], handles_before(last, ranks))  # the next batch arrives beside this one's backward pass
        if ranks > 1:
            pushed = builder.add(Op.D2H, Lane.D2H, site, parameters, after=(updated,))
            builder.link(pulled, handles_before(pushed, 2 * ranks))
        assert len(backward) == sites
        return builder.finish()


def add_layers(
    builder: Builder,
    work: ShareWork,
    here: Columns,
    counts: HopCounts,
    groups: Ints,
    owed: BackwardWork,
    after: tuple[Ints, ...],
    step: int | None = None,
) -> Ints:
    """Add the layers of one snapshot to DynaHB's plan, each on fewer vertices than the one below, down to a rank's own. Returns the last
    row's handles, int64 [sites].

    work: counts a row's work. here: the rows' columns rank, iteration, step. groups: int64 [sites], snapshot groups that a site trains, for
    evolving weights. owed: collects the work of the backward pass. after: handles that the first layer waits for. step: a snapshot's place
    in its window, whose rows tell implementations apart (`cell_variants`); None: nothing executes them.
    """
    first = step == 0 and not work.model.evolves_weights

    def implementation(op: Op, tracked: bool = True) -> Columns:
        """Return the column that says which implementation runs a row."""
        return {} if step is None else {"variant": np.full(1, stage_variant(op, tracked, first))}

    model = work.model
    sites = len(groups)
    last = after[0]
    inputs = counts.inputs
    for layer, (rows, edges) in enumerate(zip(counts.rows, counts.edges, strict=True)):
        at: Columns = {**here, "layer": np.full(sites, layer)}
        width, learns = model.width(layer), layer > 0
        if model.evolves_weights:
            cell = work.recurrence(groups * model.hidden, width)
            builder.add(Op.TEMPORAL, Lane.COMPUTE, at, cell, implementation(Op.TEMPORAL), after=after)
            owed.add(cell, 2)
        if model.transforms_first:
            dense = work.transform(inputs, width)
            builder.add(Op.TRANSFORM, Lane.COMPUTE, at, dense, after=after)
            owed.add(dense, 2 if learns else 1)
            width, learns = model.hidden, True
        summed = work.aggregate(rows, edges, width)
        last = builder.add(Op.AGGREGATE, Lane.COMPUTE, at, summed, implementation(Op.AGGREGATE, learns), after=after)
        owed.add(summed, int(learns))
        if not model.transforms_first:
            dense = work.transform(rows, width)
            last = builder.add(Op.TRANSFORM, Lane.COMPUTE, at, dense)
            owed.add(dense, 2 if learns else 1)
        if model.recurs(layer) and not model.evolves_weights:
            cell = work.recurrence(rows, model.hidden)
            last = builder.add(Op.TEMPORAL, Lane.COMPUTE, at, cell, implementation(Op.TEMPORAL))
            owed.add(cell, 2)
        inputs, after = rows, ()
    return last


def handles_before(handles: Ints, back: int) -> Ints:
    """Return the row handles of the site that is `back` places before each site (of the same rank an iteration earlier, for `back` =
    ranks); -1 where there is none. For planners that let rows wait for earlier iterations."""
    return np.concatenate([np.full(min(back, len(handles)), NONE, np.int64), handles[:-back]])
