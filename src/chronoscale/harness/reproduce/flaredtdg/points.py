"""Points: one epoch of a system on one of FlareDTDG's data sets at its published size, planned and replayed; each once a process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np

from chronoscale.batching.snapshots.chunks import Blocks, Chunks, Counted, chunked
from chronoscale.batching.snapshots.partition import Cut, metis
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.sampling import Samples, Sampling
from chronoscale.batching.snapshots.survival import Epoch
from chronoscale.datasets import catalogue
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError
from chronoscale.harness.reproduce.flaredtdg.stand_ins import ASSUMED, HIDDEN, TRAINED, WINDOW, printed, trained
from chronoscale.harness.study.findings import NAN
from chronoscale.reports.breakdown import Breakdown
from chronoscale.reports.published import published
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check, peaks
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.evaluation.metrics import alone_ns, busy_ns
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Hyper, Partition, Recency, Workload

SMALL = ("soc_flickr", "rec_amazon", "soc_youtube")  # on one machine of four GPUs; of the ablations
LARGE = ("soc_bitcoin", "ogbn_papers100m")
MODELS = {"t-gcn": "t-gcn", "mpnn-lstm": "mpnn-lstm", "evolvegcn": "evolvegcn-o"}  # of the paper: ours; its EvolveGCN has an LSTM (§4.1)
OURS, FULL, REMAPPED, SEQUENTIAL, ESDG = "flaredtdg", "full-history", "flaredtdg-remap", "flaredtdg-no-overlap", "esdg"
BASELINES = (ESDG, "dynagraph", "dynahb")
CLUSTER, LAYERS, CHUNKS = "a40-ib", 2, 64
DECAY = Decay(2, WINDOW - 2, 0.1)  # K = 2 and alpha = 0.1, where tuning starts (§3.5)
DEGREES, CLASSES = 2, 172  # numbers predicted a node (§4.1); papers100M's classes
GB = 1e9


@dataclass(frozen=True, slots=True)
class Point:
    """dataset, model: as the paper has them. gpus: 0 for Table 2's. cut: whether ranks read rows of others; without, what is left is what
    a graph would give that METIS cuts nowhere."""

    dataset: str
    model: str
    strategy: str = OURS
    gpus: int = 0
    cut: bool = True

    @property
    def ranks(self) -> int:
        return self.gpus or printed(self.dataset).gpus or 1


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """Chunks as counted, of which none reads another rank's rows."""

    counted: Counted
    origin: ClassVar[str] = "METIS, nothing cut"

    def blocks(self, epoch: Epoch, decay: Decay, ranks: int) -> Blocks:
        """As `Counted.blocks`."""
        found = self.counted.blocks(epoch, decay, ranks)
        return replace(found, halo=0 * found.halo, sent=0 * found.sent)

    def sampled(self, sampling: Sampling, ranks: int) -> Samples:
        """As `Counted.sampled`."""
        found = self.counted.sampled(sampling, ranks)
        return replace(found, halo=0 * found.halo, sent=0 * found.sent)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a point gave: seconds of an epoch, optimiser steps in it, seconds from step to step (median), peak GB of the fullest device and
    on average, seconds that a rank computes nothing, that it communicates meanwhile (means of ranks), and the parts of an epoch.

    status: ran, out of memory (there is then no time), refused; message says why.
    """

    status: str
    message: str = ""
    epoch_s: float = NAN
    steps: int = 0
    step_s: float = NAN
    peak_gb: float = NAN
    mean_gb: float = NAN
    idle_s: float = NAN
    alone_s: float = NAN
    parts: Breakdown | None = None


@cache
def sequence(dataset: str) -> SnapshotSequence:
    """The stand-in's snapshots that train."""
    found = catalogue.load(f"{dataset}_like")
    assert isinstance(found, SnapshotSequence)
    return found.head(len(trained(dataset)))


@cache
def factor(dataset: str) -> int:
    """How many times larger the data set is than its stand-in."""
    stands_for = catalogue.entry(f"{dataset}_like").stands_for
    return stands_for.factor if stands_for else 1


@cache
def chunks(dataset: str) -> Chunks:
    """METIS's, of the stand-in."""
    return chunked(sequence(dataset), CHUNKS)


@cache
def partition(dataset: str, parts: int) -> Partition:
    """METIS's cut of the stand-in, counts at full size."""
    rows, edges, halo, sent = (column * factor(dataset) for column in Cut(metis(sequence(dataset), parts), parts).count(sequence(dataset)))
    return Partition(rows, edges, halo, sent, origin="METIS on the stand-in")


def regresses(dataset: str) -> bool:
    """Whether degrees are predicted, which are the features then (§4.1); else classes."""
    return printed(dataset).node_features == DEGREES


def workload(point: Point, decay: Decay = DECAY) -> Workload:
    """Two layers of the published code's width, windows of 8 snapshots (§4.1); ESDG's window is all that trains (§4.1)."""
    name, planner = point.dataset, strategy(point.strategy)
    read = printed(name).node_features or 1
    predicted, task = (DEGREES, "degrees") if regresses(name) else (CLASSES, "classes")
    length = len(trained(name)) - 1 if point.strategy == ESDG else decay.window
    hyper = Hyper(group_size=length, recency=Recency(decay, CHUNKS), task=task)
    cut = partition(name, point.ranks) if planner.partitioned else None
    counted = Counted(sequence(name), chunks(name), factor(name))
    model = model_shape(MODELS[point.model], read, HIDDEN[name], LAYERS, predicted)
    return Workload(f"{name}, generated", trained(name), model, hyper, cut, counted if point.cut else Apart(counted))


@cache
def machines(gpus: int) -> Cluster:
    """The testbed's, as many as `gpus` need."""
    return presets.scaled(presets.cluster(CLUSTER), gpus)


def replayed(point: Point) -> tuple[Schedule, Trace]:
    """Schedule and simulated trace. Raises UserError where the strategy refuses the workload."""
    cluster = machines(point.ranks)
    costs = DatasheetCosts(cluster.device)
    schedule = strategy(point.strategy).plan(workload(point), point.ranks, costs)
    return schedule, replay(schedule, cluster, costs)


def between(schedule: Schedule, trace: Trace) -> float:
    """Seconds from one optimiser step's end to the next one's, the median; NaN for a single step."""
    rows = trace.op == Op.OPTIMIZE
    ends = np.zeros(schedule.iterations, np.int64)
    np.maximum.at(ends, schedule.iteration[trace.task[rows]], trace.end_ns[rows])
    return float(np.median(np.diff(ends))) / 1e9 if len(ends) > 1 else NAN


@cache
def simulate(point: Point) -> Outcome:
    """One point; refusals and lack of memory are outcomes."""
    try:
        schedule, trace = replayed(point)
    except UserError as error:
        return Outcome("refused", str(error))
    held = peaks(schedule, trace) / GB
    found = Outcome(
        "ran",
        epoch_s=trace.span_ns / 1e9,
        steps=schedule.iterations,
        step_s=between(schedule, trace),
        peak_gb=float(held.max()),
        mean_gb=float(held.mean()),
        idle_s=(trace.span_ns - float(np.mean(busy_ns(trace)))) / 1e9,
        alone_s=float(np.mean(alone_ns(trace))) / 1e9,
        parts=Breakdown.middle([trace]),
    )
    try:
        check(schedule, trace, machines(point.ranks))
    except UserError as error:
        return replace(found, status="out of memory", message=str(error), epoch_s=NAN, step_s=NAN, idle_s=NAN, alone_s=NAN, parts=None)
    return found


def grid(quick: bool, datasets: Sequence[str] = SMALL) -> list[tuple[str, str]]:
    """Data sets and models in the tables' order; quick: two, and one."""
    models = tuple(MODELS)[:1] if quick else tuple(MODELS)
    return [(dataset, model) for dataset in (datasets[:2] if quick else datasets) for model in models]


def line(number: int, dataset: str, model: str) -> dict[str, float]:
    """A table's figures of a data set and model, by name; without those that ran out of memory."""
    (found,) = (one for one in published("flaredtdg").tables[number].rows if (one["dataset"], one["model"]) == (dataset, model))
    return {name: float(value) for name, value in found.items() if not isinstance(value, str)}


def kept(decay: Decay = DECAY) -> float:
    """Whole snapshots that a window keeps, its parts added up."""
    return float(decay.kept(CHUNKS).sum()) / CHUNKS


def notes(quick: bool, ran: str = "soc_flickr and rec_amazon, T-GCN") -> tuple[str, ...]:
    """How points are made, and what was assumed. `ran`: by a quick run."""
    launch = machines(4).device.launch_s * 1e6
    widths = ", ".join(f"{name} {HIDDEN[name]}" for name in HIDDEN)
    return (
        *((f"Quick: {ran}.",) if quick else ()),
        f"Simulated on {CLUSTER}, of durations that a datasheet specifies: a roofline, each kind of work at its own share of peak, "
        f"{launch:g} µs of one host thread a kernel, kernels and copies that share memory, SMs and links. No such "
        "machine has confirmed them.",
        "Data sets are generated stand-ins at a thousandth or less of their size (Tables 1 and 2), cut by METIS there; counts are "
        "multiplied. R-MAT graphs have no communities: METIS cuts more of them than of the originals, and more is exchanged.",
        f"Assumed: {LAYERS} layers, hidden widths of the published code ({widths}; {', '.join(ASSUMED)} not in it), K = {DECAY.full}, "
        f"m = {DECAY.decayed}, alpha = {DECAY.alpha:g} where tuning starts (§3.5), {CHUNKS} chunks, the first {TRAINED:.0%} of the "
        "snapshots in training; ESDG's window is all of these (§4.1). EvolveGCN is version -O.",
    )
