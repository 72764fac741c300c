"""Grid: the paper's points (dataset x model x depth x strategy x GPUs), planned and replayed; each once a process."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from chronoscale.batching.snapshots.partition import VertexPartition, metis_partition
from chronoscale.datasets import catalogue
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics, statistics_of
from chronoscale.errors import UserError
from chronoscale.harness.reproduce.study import NAN, Told
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check, peaks
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.evaluation.metrics import busy_ns, imbalance
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Hyper, Partition, Workload

DATASETS = ("arxiv", "products", "reddit", "stackoverflow", "stackoverflow_a2q", "wiki_talk")
MODELS = ("evolvegcn-o", "wd-gcn", "t-gcn", "gat-lstm")
VARIANTS = ("as-published", "exact")
QUICK_DATASETS, QUICK_MODELS = ("arxiv", "wiki_talk", "arxiv_300"), ("wd-gcn", "gat-lstm")

# A transfer's kind by operation, as Figure 10 parts them.
NAMED = {
    "CPU-GPU": ("H2D", "D2H"),
    "gradients": ("ALLREDUCE",),
    "neighbours": ("ALLTOALL", "ALLGATHER"),
    "hidden states": ("SEND", "RECV"),
    "intra-GPU": ("COPY",),
}
KINDS = {kind: tuple(op for op in Op if op.name in names) for kind, names in NAMED.items()}


@dataclass(frozen=True, slots=True)
class Point:
    """One simulated epoch.

    variant: which difference maps, REAL's (changed edges only) or exact ones; baselines have none. copies: whether host to device
    transfers take time; without, what is left is what computing and communication alone would give.
    """

    dataset: str
    model: str
    layers: int
    strategy: str
    cluster: str = "h200"
    gpus: int = 8
    variant: str = "exact"
    copies: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a point gave. status: ran, out of memory (an epoch is then no result), refused; message says why. flops: of GraphConv.

    increments: share of its rows that are incremental.
    """

    status: str
    message: str = ""
    epoch_s: float = NAN
    peak_gb: float = NAN
    flops: float = NAN
    increments: float = NAN
    h2d_gb: float = NAN
    imbalance: float = NAN
    utilisation: float = NAN
    transfer_s: tuple[float, ...] = (NAN,) * len(KINDS)  # of all ranks, by kind
    note: str = ""  # of the planning: whether a solver ran
    gap: float = NAN  # of the plan to its certified bound


@cache
def statistics(dataset: str) -> SnapshotStatistics:
    """Counts of the stand-in for a dataset of Table 3, at its size."""
    entry = catalogue.entry(f"{dataset}_like")
    factor = entry.stands_for.factor if entry.stands_for else 1
    return statistics_of(catalogue.iterate_snapshots(entry.name)).scaled(factor)


@cache
def partition(dataset: str, parts: int) -> Partition:
    """METIS's cut of the stand-in's own snapshots, counts at full size."""
    entry, sequence = catalogue.entry(f"{dataset}_like"), catalogue.load(f"{dataset}_like")
    assert isinstance(sequence, SnapshotSequence)
    factor = entry.stands_for.factor if entry.stands_for else 1
    rows, edges, halo, sent = (column * factor for column in VertexPartition(metis_partition(sequence, parts), parts).count(sequence))
    return Partition(rows, edges, halo, sent, origin="METIS on the stand-in")


@cache
def machines(name: str, gpus: int, copies: bool = True) -> Cluster:
    """A preset with as many machines as `gpus` need."""
    found = presets.scaled(presets.cluster(name), gpus)
    return found if copies else replace(found, device=replace(found.device, h2d=Link(math.inf, 0.0)))


def workload(point: Point) -> Workload:
    """Groups of four, stride 1, hidden 64, input width as in Table 3 (§7.1)."""
    stands_for = catalogue.entry(f"{point.dataset}_like").stands_for
    widths = catalogue.entry(stands_for.dataset if stands_for else point.dataset).as_published("real").node_features
    cut = partition(point.dataset, point.gpus) if strategy(point.strategy).partitioned else None
    model = model_shape(point.model, int(widths or 1), hidden=64, layers=point.layers)
    return Workload(f"{point.dataset}, generated", statistics(point.dataset), model, Hyper(variant=point.variant), cut)


def replayed(point: Point, planner: Strategy | None = None) -> tuple[Schedule, Trace]:
    """Schedule and simulated trace; `planner` plans in the strategy's place. Raises UserError where the strategy refuses the workload."""
    cluster = machines(point.cluster, point.gpus, point.copies)
    costs = DatasheetCosts(cluster.device)
    schedule = (planner or strategy(point.strategy)).plan(workload(point), point.gpus, costs)
    return schedule, replay(schedule, cluster, costs)


@cache
def simulate(point: Point) -> Outcome:
    """One point; refusals and lack of memory are outcomes."""
    try:
        schedule, trace = replayed(point)
    except UserError as error:
        return Outcome("refused", str(error))
    convolved = np.isin(schedule.op, [Op.AGGREGATE, Op.INCREMENT])
    seconds = np.bincount(trace.op, trace.duration_ns / 1e9, len(Op))
    found = Outcome(
        "ran",
        "",
        trace.span_ns / 1e9,
        float(peaks(schedule, trace).max()) / 1e9,
        float(schedule.flops[convolved].sum()),
        float((schedule.op[convolved] == Op.INCREMENT).mean()),
        float(schedule.bytes[schedule.op == Op.H2D].sum()) / 1e9,
        imbalance(trace),
        float(busy_ns(trace).mean()) / max(trace.span_ns, 1),
        tuple(float(sum(seconds[op] for op in ops)) for ops in KINDS.values()),
        schedule.note,
        schedule.gap,
    )
    try:
        check(schedule, trace, machines(point.cluster, point.gpus, point.copies))
    except UserError as error:
        return replace(found, status="out of memory", message=str(error), epoch_s=NAN)
    return found


def points(
    strategies: Iterable[str],
    quick: bool,
    layers: Iterable[int] = (1, 2),
    cluster: str = "h200",
    gpus: int = 8,
    datasets: Sequence[str] = DATASETS,
    variants: Sequence[str] = VARIANTS,
    copies: bool = True,
) -> list[Point]:
    """The grid; strategies with difference maps once a variant."""
    if quick:
        datasets = [name for name in datasets if name in QUICK_DATASETS]
    return [
        Point(dataset, model, depth, name, cluster, gpus, variant, copies)
        for dataset in datasets
        for model in (QUICK_MODELS if quick else MODELS)
        for depth in layers
        for name in strategies
        for variant in (variants if name.startswith("real-") else ("exact",))
    ]


def both(
    strategies: Sequence[str],
    exact: str,
    quick: bool,
    layers: Iterable[int] = (1, 2),
    cluster: str = "h200",
    gpus: int = 8,
    datasets: Sequence[str] = DATASETS,
) -> list[Point]:
    """The grid with as-published maps, and one strategy with exact maps besides."""
    depths = tuple(layers)
    first = points(strategies, quick, depths, cluster, gpus, datasets, variants=("as-published",))
    return first + points((exact,), quick, depths, cluster, gpus, datasets, variants=("exact",))


def frame(grid: Sequence[Point], told: Told) -> pd.DataFrame:
    """One row a point, in order: its fields, its outcome, and seconds by kind of transfer."""
    rows = []
    for i, point in enumerate(grid):
        told(f"{i + 1} of {len(grid)}: {point.strategy}, {point.model}, {point.dataset}")
        found = asdict(simulate(point))
        rows.append({**asdict(point), **found, **dict(zip(KINDS, found.pop("transfer_s"), strict=True))})
    return pd.DataFrame(rows).drop(columns="transfer_s", errors="ignore")
