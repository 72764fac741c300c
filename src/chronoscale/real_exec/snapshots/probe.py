"""Probes: the schedules that a profile measures, chosen to span what an experiment will ask of its cost model."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking, cut_into_chunks
from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.batching.snapshots.partition import VertexPartition, metis_partition
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.survival import rank_of
from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics, statistics_of
from chronoscale.strategies.baselines.snapshots.distdgl import DistDGL
from chronoscale.strategies.baselines.snapshots.dynagraph import DynaGraph
from chronoscale.strategies.baselines.snapshots.dynahb import DynaHB
from chronoscale.strategies.baselines.snapshots.esdg import ESDG
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.flaredtdg.issue_order import one_by_one
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.flaredtdg.strategy import FULL_HISTORY, IN_ORDER, RECENT_ONLY, RECENT_STATES, REMAPPED
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.snapshots.folding import computed_rows
from chronoscale.strategies.snapshots.forms import Forms, must_track, uniform_forms
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.shared_rows import can_share_rows
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.workload import Hyper, ModelShape, Partition, Recency, Workload

LEAST = 16  # nodes of a generated graph
LASTING = 2  # windows of a rank in a probe: the first pays for what another schedule left in the caches, and two may be in turn
SLIDES = 4  # windows of an epoch on blocks: the first brings all its snapshots, the others one each
BETWEEN = 3  # snapshots of a sampled window: one is neither its first nor its last
PAIRED = Reuse(snapshots=True, groups=True)
SHARED = Reuse(snapshots=True, groups=True, rows=True)
CHANGES = ("map", "delta", "kept")  # ways to run a group: as what changed
# Labels of graphs: snapshots in falling order; all nodes in the chunk that is kept for longest; all but a few in the one dropped first.
FALLING, KEPT, DROPPED = "falling", "-kept", "-dropped"
SHRINKING = (IN_ORDER, replace(REMAPPED, policy=one_by_one))  # windows that keep less of older snapshots
WHOLE = tuple(replace(planner, policy=one_by_one) for planner in (FULL_HISTORY, RECENT_ONLY, RECENT_STATES))  # that keep all
WAYS = ("full", *CHANGES, "pipeline")  # or every snapshot in full, one group of a rank after the other or two in turn


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Short schedule on snapshots that ranks execute to time its operations for a cost model, with the snapshots and hyper-parameters.

    parts: the vertex partition of a schedule that runs on parts, or the vertex chunks of one that runs on blocks or hybrid batches, int32
    [N].
    """

    label: str
    snapshots: SnapshotSequence
    schedule: Schedule
    hyper: Hyper
    parts: Int32 | None = None


def probes(
    snapshots: SnapshotSequence, model: ModelShape, hyper: Hyper, ranks: int, kinds: Collection[str] = ("groups",), seed: int = 0
) -> Iterator[Probe]:
    """Yield short schedules on snapshots that time, for a cost model, the operations of schedules of these kinds.

    kinds: "groups", "shared" (groups that share rows), "snapshots", "parts", "blocks", "sampled", "hybrid". They run on windows of the
    dataset itself, and on generated graphs around its size, with as many classes of nodes; all snapshots are trained on.
    """
    hyper = replace(hyper, held=HeldOut())
    for probe in _probes(snapshots, model, hyper, ranks, kinds, seed):
        own = probe.snapshots.classes is None and snapshots.num_classes
        yield replace(probe, snapshots=_with_classes(probe.snapshots, own)) if own else probe


def _with_classes(snapshots: SnapshotSequence, classes: int) -> SnapshotSequence:
    """Return the snapshots with nodes in classes by turns; the last node is in the last class, so that there are as many even for few
    nodes."""
    labels = np.arange(snapshots.num_nodes, dtype=np.int32) % classes
    labels[-1] = classes - 1
    return replace(snapshots, classes=labels)


def _probes(snapshots: SnapshotSequence, model: ModelShape, hyper: Hyper, ranks: int, kinds: Collection[str], seed: int) -> Iterator[Probe]:
    if "groups" in kinds:
        yield from _group_probes(snapshots, model, hyper, ranks, seed)
    if "shared" in kinds:
        yield from _shared_probes(snapshots, model, hyper, ranks, seed)
    if "snapshots" in kinds or "parts" in kinds:
        yield from _cell_probes(snapshots, model, hyper, ranks, kinds, seed)
    if "blocks" in kinds:
        yield from _block_probes(snapshots, model, hyper, ranks, seed)
    if "sampled" in kinds:
        yield from _sampled_probes(snapshots, model, hyper, ranks, seed)
    if "hybrid" in kinds:
        yield from _hybrid_probes(snapshots, model, hyper, ranks, seed)


def _group_probes(snapshots: SnapshotSequence, model: ModelShape, hyper: Hyper, ranks: int, seed: int) -> Iterator[Probe]:
    """Yield windows of the dataset at quantiles of its size, and generated ones below and above; each in every form.

    Groups are assigned to `ranks` ranks, so that all of them are busy: ranks of one machine share its memory bandwidth and its caches. REAL
    profiles epochs of the workload (§3.2) and fits its curves on synthetic graphs (appendix B); a fit needs both: the first for the shapes
    that will be predicted, the second so that nodes vary.
    """
    size = hyper.group_size + hyper.horizon
    apart = replace(hyper, stride=size, groups_per_rank=1)
    stats = statistics_of(snapshots)
    first = window_starts(snapshots, stats, size, hyper.horizon)
    for i, part in enumerate(_batches_of(first, LASTING * ranks)):
        yield from _forms(f"windows{i}-{ranks}", _windows(snapshots, part, size), model, apart, ranks, WAYS)
    low, high = int(stats.edges.min()), int(stats.edges.max())
    if hyper.group_size > 1:
        nodes = max(stats.num_nodes, LEAST)
        edges = 2 * high + 16
        length = _pair_length(hyper, ranks)
        graph = GrowthGraph.rmat(nodes, min(edges, nodes * (nodes - 1) // 4), length, 0.1, seed, trend=np.full(length, 0.5))
        yield _pairs("pairs", graph.sequence().without_self_edges(), model, hyper, ranks)
        if stats.num_nodes < LEAST:  # fewer than a generated graph has
            yield _pairs("own-pairs", _concatenate(snapshots, np.arange(length) % len(snapshots)), model, hyper, ranks)
        elif len(rows := _rows_of_groups(stats, model, hyper)) and (rows < stats.num_nodes).any():
            fewest = int(np.argmin(rows))
            yield _pairs("fewest-pairs", _concatenate(snapshots, fewest + np.arange(length) % hyper.group_size), model, hyper, ranks)
    for scale, edges in ((0.5, low // 2), (0.75, (low + high) // 2), (1.0, low), (1.0, int(high * 1.2) + 8)):
        nodes, edges = max(int(stats.num_nodes * scale), LEAST), max(edges, 8)
        static, length = min(2 * edges, nodes * (nodes - 1) // 4), 2 * size * ranks
        for churn, kinds in ((0.0, CHANGES), (0.02, WAYS), (0.4, CHANGES)):  # an unchanged snapshot is a difference map, too
            graph, label = GrowthGraph.rmat(nodes, static, length, churn, seed, trend=np.full(length, 0.5)), f"n{nodes}-e{edges}-c{churn}"
            yield from _forms(f"{label}-{ranks}", graph.sequence().without_self_edges(), model, apart, ranks, kinds)


def _rows_of_groups(stats: SnapshotStatistics, model: ModelShape, hyper: Hyper) -> Ints:
    """Return how many rows a group has that starts with each snapshot, int64: fewer than nodes where idle ones are folded."""
    start = np.arange(max(len(stats) - hyper.group_size - hyper.horizon + 1, 0))
    return computed_rows(Workload("groups", stats, model, hyper), start, hyper.group_size)


def _pair_length(hyper: Hyper, ranks: int) -> int:
    """Return how many snapshots two pairs of groups a rank take that share one snapshot each."""
    return (4 * ranks - 1) * (hyper.group_size - 1) + hyper.group_size + hyper.horizon


def _pairs(label: str, snapshots: SnapshotSequence, model: ModelShape, hyper: Hyper, ranks: int) -> Probe:
    """Return a probe of `_paired` snapshots, all in full: backward passes that carry nothing, and those that carry the most."""
    hyper = replace(hyper, stride=hyper.group_size - 1, groups_per_rank=1)
    workload = Workload(label, statistics_of(snapshots), model, hyper)
    placement = deal(workload.groups, ranks, 2)
    schedule = lower(label, workload, placement, PAIRED, UNUSED, uniform_forms(len(snapshots)))
    return Probe(f"{label}-{ranks}", snapshots, schedule, hyper)  # the snapshots depend on `ranks`, too


def window_starts(snapshots: SnapshotSequence, stats: SnapshotStatistics, size: int, beyond: int = 1, samples: int = 6) -> Ints:
    """Return where windows of snapshots begin that are to be timed for a cost model: numbers of first snapshots, int64.

    size: consecutive snapshots of a window. These are `samples` windows evenly over the order of their edge counts, and those that hold the
    least and the most of everything that a row's cost is fitted on; those furthest from the middle come first. A window's last `beyond`
    snapshots are predicted, not read.
    """
    possible = np.arange(0, len(snapshots) - size + 1)
    weight = np.convolve(stats.edges + stats.effective_edges, np.ones(size), "valid")
    by = possible[np.argsort(weight, kind="stable")]
    chosen = by[np.linspace(0, len(possible) - 1, samples).astype(int)]
    counts = (
        stats.edges,
        stats.changed_edges,
        stats.map_rows,
        stats.effective_edges,
        stats.touched_rows,
        stats.edges + stats.changed_edges,
    )
    loaded = slice(1, len(snapshots) - beyond)
    extremes = [1 + pick(count[loaded]) for count in counts for pick in (np.argmin, np.argmax) if len(count[loaded])]
    chosen = np.unique(np.clip([*chosen, *(extreme - 1 for extreme in extremes)], 0, len(possible) - 1))
    middle = float(np.median(weight[chosen]))
    return np.asarray(chosen[np.argsort(-np.abs(weight[chosen] - middle), kind="stable")], np.int64)


def windows(snapshots: SnapshotSequence, stats: SnapshotStatistics, size: int, beyond: int = 1) -> SnapshotSequence:
    """Return the windows of snapshots to time for a cost model (`window_starts`), one after another in time, as one sequence.

    A window's first snapshot has no predecessor there.
    """
    return _windows(snapshots, np.sort(window_starts(snapshots, stats, size, beyond)), size)


def _windows(snapshots: SnapshotSequence, first: Ints, size: int) -> SnapshotSequence:
    """Return windows of `size` consecutive snapshots from each of `first` on, one after another."""
    return _concatenate(snapshots, (first[:, None] + np.arange(size)).ravel())


def _batches_of(first: Ints, ranks: int) -> Iterator[Ints]:
    """Yield as many windows at a time as there are ranks; some come again to fill up the last."""
    for begin in range(0, len(first), ranks):
        yield np.resize(first, begin + ranks)[begin:]


def _concatenate(snapshots: SnapshotSequence, chosen: NDArray[np.int64]) -> SnapshotSequence:
    """Return the sequence of the snapshots with these numbers."""
    parts = [snapshots[int(t)] for t in chosen]
    ptr = np.concatenate([[0], np.cumsum([part.num_edges for part in parts])]).astype(np.int64)
    src, dst = np.concatenate([p.src for p in parts]), np.concatenate([p.dst for p in parts])
    return replace(snapshots, ptr=ptr, src=src, dst=dst, weight=None, labels=None)


def _forms(label: str, snapshots: SnapshotSequence, model: ModelShape, hyper: Hyper, ranks: int, kinds: tuple[str, ...]) -> Iterator[Probe]:
    workload = Workload(label, statistics_of(snapshots), model, hyper)
    count, varies = len(snapshots), task_of(hyper.task).varies  # where nothing is incremented
    ways = {
        "full": (Reuse(), uniform_forms(count)),
        "map": (Reuse(snapshots=True), uniform_forms(count, Form.MAP, True)),
        "delta": (Reuse(snapshots=True), uniform_forms(count, Form.DELTA, must_track(workload))),
        "kept": (Reuse(snapshots=True), _kept_forms(count, hyper, must_track(workload))),
        "pipeline": (Reuse(pipeline=True), uniform_forms(count)),
    }
    for kind in kinds:
        reuse, forms = ways[kind]
        if not varies or Form.DELTA not in forms.form:
            placement = deal(workload.groups, ranks, 1 + reuse.pipeline)
            yield Probe(f"{label}-{kind}", snapshots, lower(f"{label}-{kind}", workload, placement, reuse, UNUSED, forms), hyper)


def _shared_probes(snapshots: SnapshotSequence, model: ModelShape, hyper: Hyper, ranks: int, seed: int) -> Iterator[Probe]:
    """Yield probes of groups that share rows, alone and in pairs: of stretches of the dataset, and of graphs around its size in which all
    rows stay, some do, or none does."""
    stats, size = statistics_of(snapshots), hyper.group_size
    if not can_share_rows(Workload("", stats, model, hyper)):
        return
    length = _pair_length(hyper, ranks)
    room = max(len(snapshots) - length, 0)
    low, high = int(stats.edges.min()) // 2 + 8, int(stats.edges.max() * 1.2) + 8
    turning = _turning(max(stats.num_nodes, LEAST), high, length)
    graphs = {"turning": (turning, Form.FULL), "turning-changes": (turning, Form.DELTA)}
    for at, form in product(sorted({0, room}), (Form.FULL, Form.DELTA)):
        graphs[f"stretch{at}-{form.name.lower()}"] = _concatenate(snapshots, np.arange(at, len(snapshots))[:length]), form
    if stats.num_nodes < LEAST:  # fewer than a generated graph has
        for at, form in product(sorted({int(stats.edges.argmin()), int(stats.edges.argmax())}), (Form.FULL, Form.DELTA)):
            graphs[f"still{at}-{form.name.lower()}"] = _concatenate(snapshots, np.full(length, at)), form
    for scale, edges, churn in ((0.5, low, 0.0), (1.0, low, 0.0), (1.0, high, 0.02), (1.0, high, 0.1), (0.75, high, 0.4)):
        nodes = max(int(stats.num_nodes * scale), LEAST)
        graph = GrowthGraph.rmat(nodes, min(2 * edges, nodes * (nodes - 1) // 4), length, churn, seed, trend=np.full(length, 0.5))
        form = Form.FULL if churn == 0.1 else Form.DELTA
        graphs[f"n{nodes}-e{edges}-c{churn}"] = graph.sequence().without_self_edges(), form
    for (label, (sequence, form)), each in product(graphs.items(), (1, 2)):
        stride = hyper.stride if label.startswith("still") else max(size - 1, 1)  # the more snapshots a pair shares, the fewer bytes
        apart = replace(hyper, stride=stride, groups_per_rank=1)
        work = Workload(label, statistics_of(sequence), model, apart)
        forms = uniform_forms(len(sequence), form, form is Form.DELTA and must_track(work))
        schedule = lower(f"{label}-shared{each}", work, deal(work.groups, ranks, each), SHARED, UNUSED, forms)
        yield Probe(f"{label}-shared{each}-{ranks}", sequence, schedule, apart)


def _turning(nodes: int, edges: int, length: int) -> SnapshotSequence:
    """Return snapshots in which every row is another than in the snapshot before: of node v edges come from the next nodes, and from those
    before it by turns."""
    near = np.arange(1, max(min(edges // nodes + 1, (nodes - 1) // 2), 1) + 1)
    node = np.repeat(np.arange(nodes), len(near))
    sides = [Snapshot.from_edges(nodes, (node + sign * np.tile(near, nodes)) % nodes, node) for sign in (1, -1)]
    return SnapshotSequence.from_snapshots([sides[t % 2] for t in range(length)])


def _kept_forms(count: int, hyper: Hyper, tracked: bool) -> Forms:
    """Return forms of groups whose sums are saved for one increment.

    Every snapshot is in full, without features but for the first; the last is an increment. Of groups of two none is incremented.
    """
    last = np.arange(count) % (hyper.group_size + hyper.horizon) == hyper.group_size - 1
    return Forms(np.where(last & (hyper.group_size > 2), Form.DELTA, Form.FULL).astype(np.int8), tracked)


def _cell_probes(
    snapshots: SnapshotSequence, model: ModelShape, hyper: Hyper, ranks: int, kinds: Collection[str], seed: int
) -> Iterator[Probe]:
    """Yield probes of ESDG, for all strategies that spread a group by snapshots, and of DistDGL, for all that spread it by parts.

    Parts are METIS's for the windows. Generated graphs are assigned node by node in turn, which cuts most, or all to one rank, which makes
    the largest part and the smallest.
    """
    size = hyper.group_size + hyper.horizon
    apart = replace(hyper, stride=size, groups_per_rank=1)
    stats = statistics_of(snapshots)
    for label, sequence in _around(snapshots, stats, size, hyper.horizon, seed):
        work = Workload(label, statistics_of(sequence), model, apart)
        if "snapshots" in kinds:
            yield Probe(f"{label}-esdg", sequence, ESDG().plan(work, ranks, UNUSED), apart)
        if "parts" in kinds:
            node = np.arange(sequence.num_nodes, dtype=np.int32)
            cuts = {"metis": metis_partition(snapshots, ranks)} if label == "windows" else {"dealt": node % ranks, "one": 0 * node}
            for name, assignment in cuts.items():
                cut = replace(work, partition=Partition(*VertexPartition(assignment, ranks).count(sequence)))
                yield Probe(f"{label}-{name}-{ranks}", sequence, DistDGL().plan(cut, ranks, UNUSED), apart, assignment)


def _block_probes(snapshots: SnapshotSequence, model: ModelShape, hyper: Hyper, ranks: int, seed: int) -> Iterator[Probe]:
    """Yield probes of sliding windows in METIS's chunks.

    Snapshots are at quantiles of the dataset's edges, the fewest first and the most first, so that old snapshots are small ones and large
    ones. Nodes of generated graphs are assigned to chunks in turn, which cuts most, or all to one that the first rank keeps for longest,
    which makes the largest blocks and, on other ranks, the smallest; those of one rank are smallest where a few nodes alone are kept.

    Snapshots run one after another, so that no row is timed beside another's communication; every pass draws the order of chunks that was
    planned. Old snapshots are shrunk, built anew, or whole, and windows of recent ones alone begin without a state: each is another
    implementation of some operation. Whole ones are not timed once more in another order, or with other chunks that are kept.
    """
    recency, stats = hyper.recency, statistics_of(snapshots)
    length, high = recency.decay.window + SLIDES - 1 + hyper.horizon, int(stats.edges.max())
    by = np.argsort(stats.edges, kind="stable")[np.linspace(0, len(snapshots) - 1, length).astype(int)]
    depth = WindowRetention(recency.decay, hyper.variant == "as-published").epoch(hyper.seed, 0).depth(recency.chunks, recency.decay, ranks)
    first = depth[rank_of(recency.chunks, ranks) == 0]
    longest, shortest = (pick(first).astype(np.int32) for pick in (np.argmax, np.argmin))
    own = cut_into_chunks(snapshots, recency.chunks).assignment
    graphs = {"rising": (_concatenate(snapshots, by), own), FALLING: (_concatenate(snapshots, by[::-1]), own)}
    for scale, edges in ((0.5, high // 4), (1.0, int(high * 1.2) + 8)):
        count = max(int(stats.num_nodes * scale), LEAST)
        static = min(2 * max(edges, 8), count * (count - 1) // 4)
        graph = GrowthGraph.rmat(count, static, length, 0.1, seed, trend=np.full(length, 0.5)).sequence().without_self_edges()
        node = np.arange(count, dtype=np.int32)
        graphs[f"n{count}-e{edges}"] = graph, node % recency.chunks
        graphs[f"n{count}-e{edges}{KEPT}"] = graph, 0 * node + longest
        graphs[f"n{count}-e{edges}{DROPPED}"] = graph, np.where(node < count - max(count // LEAST, 1), shortest, longest).astype(np.int32)
    for label, planner in ((label, planner) for label in graphs for planner in (*SHRINKING, *WHOLE)):
        if planner in WHOLE and label.endswith((FALLING, KEPT, DROPPED)):
            continue
        sequence, chunk = graphs[label]
        work = Workload(label, statistics_of(sequence), model, hyper, chunking=ExactChunking(sequence, Chunks(chunk, recency.chunks)))
        schedule = planner.plan(work, ranks, UNUSED)
        still = replace(WindowRetention.of(schedule), still=True)
        yield Probe(f"{label}-{planner.name}", sequence, replace(schedule, feeding=str(still)), hyper, chunk)


def _around(
    snapshots: SnapshotSequence, stats: SnapshotStatistics, size: int, horizon: int, seed: int
) -> Iterator[tuple[str, SnapshotSequence]]:
    """Yield windows of `size` snapshots of the dataset, and generated graphs around its size, each with a label."""
    yield "windows", windows(snapshots, stats, size, horizon)
    nodes, high = stats.num_nodes, int(stats.edges.max())
    for scale, edges in ((0.5, 8), (0.75, high // 2 + 8), (1.0, 8), (1.0, int(high * 1.2) + 8)):
        count = max(int(nodes * scale), LEAST)
        static = min(2 * edges, count * (count - 1) // 4)
        graph = GrowthGraph.rmat(count, static, 2 * size, 0.1, seed, trend=np.full(2 * size, 0.5))
        yield f"n{count}-e{edges}", graph.sequence().without_self_edges()


def _sampled_probes(snapshots: SnapshotSequence, model: ModelShape, hyper: Hyper, ranks: int, seed: int) -> Iterator[Probe]:
    """Yield probes of DynaGraph on windows of up to three snapshots: of more, those between the first and the last cost alike."""
    length = min(hyper.recency.decay.window, BETWEEN)
    short = replace(hyper, recency=Recency(Decay(length, 0, 1.0), 1))
    for label, sequence in _around(snapshots, statistics_of(snapshots), length + hyper.horizon, hyper.horizon, seed):
        whole = ExactChunking(sequence, Chunks(np.zeros(sequence.num_nodes, np.int32), 1))  # vertices are dealt, not cut
        work = Workload(label, statistics_of(sequence), model, short, chunking=whole)
        yield Probe(f"{label}-sampled-{ranks}", sequence, DynaGraph().plan(work, ranks, UNUSED), short)


def _hybrid_probes(snapshots: SnapshotSequence, model: ModelShape, hyper: Hyper, ranks: int, seed: int) -> Iterator[Probe]:
    """Yield probes of DynaHB, all batches as large as the first. Nodes are assigned one by one, or all to one rank: the largest batches."""
    length = max(hyper.recency.decay.window, 2)
    for label, sequence in _around(snapshots, statistics_of(snapshots), length + hyper.horizon, hyper.horizon, seed):
        node = np.arange(sequence.num_nodes, dtype=np.int32)
        for cut, window, assignment in (("dealt", length, node % ranks), ("one", 2, 0 * node)):
            short = replace(hyper, recency=Recency(Decay(window, 0, 1.0), ranks))
            work = Workload(label, statistics_of(sequence), model, short, chunking=ExactChunking(sequence, Chunks(assignment, ranks)))
            yield Probe(f"{label}-hybrid-{cut}-{ranks}", sequence, DynaHB().plan(work, ranks, UNUSED), short, assignment)
