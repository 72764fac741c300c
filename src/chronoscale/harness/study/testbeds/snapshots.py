"""Snapshots: points on generated stand-ins of a paper's snapshots, with counts at their published size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from chronoscale.batching.snapshots.chunks import BlockCounts, ExactChunking
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.sampling import NeighbourSampling, SampleCounts
from chronoscale.batching.snapshots.survival import EpochDraws
from chronoscale.datasets import catalogue
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics
from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.replay import Replayed
from chronoscale.harness.study.testbeds.stand_ins import LISTED, StandIns, counted, partition, statistics
from chronoscale.simulator import memory, presets
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.real.ilp import RealL
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Hyper, Recency, Workload


def first(stats: SnapshotStatistics, share: float) -> SnapshotStatistics:
    """Return the counts of the first `share` (0 to 1) of the snapshots, such as those that FlareDTDG's studies train on; without those of
    rows that last, since the published systems compute every node's."""
    return replace(stats.head(int(share * len(stats))), lasting=None)


def input_width(dataset: str, paper: str) -> int:
    """Return how many features a node of a data set has in a paper's table, for the testbed of REAL and FlareDTDG; 1 where it prints none.

    paper: its key. A variant of a data set has the features of what it stands for.
    """
    stands_for = catalogue.entry(f"{dataset}_like").stands_for
    return int(catalogue.entry(stands_for.dataset if stands_for else dataset).as_published(paper).node_features or 1)


@cache
def machines(preset: str, gpus: int, copies: bool = True) -> Cluster:
    """Return the simulated cluster of a study of REAL or FlareDTDG: a preset with as many machines as `gpus` need.

    preset: its name. copies: False: host to device copies take no time.
    """
    cluster = presets.scaled(presets.cluster(preset), gpus)
    return cluster if copies else replace(cluster, device=replace(cluster.device, h2d=Link(math.inf, 0.0)))


@dataclass(frozen=True, slots=True)
class Solved(RealL):
    """Planner of REAL's studies: REAL-L whose solver always runs, also where a bound proves that it cannot gain much.

    The schedule's note repeats its warnings.
    """

    always: bool = True

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ChronoscaleWarning)
            return RealL.plan(self, workload, ranks, costs)


class Windows(BaseModel):
    """Window of snapshots that FlareDTDG's studies train on: `full` whole ones, then `decayed` older ones of which fewer chunks are kept.

    chunks: parts that a snapshot's nodes are cut into. alpha: share of them kept of the oldest snapshot. whole: strategies whose window is
    all snapshots. apart: no window crosses an epoch's random split of the sequence.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    full: int
    decayed: int
    alpha: float
    chunks: int
    whole: tuple[str, ...] = ()
    apart: bool = False

    @property
    def decay(self) -> Decay:
        """Return the rule of how many chunks the window keeps of each older snapshot."""
        return Decay(self.full, self.decayed, self.alpha)

    @property
    def kept(self) -> float:
        """Return how many whole snapshots a window holds, the kept chunks of older ones added up."""
        return float(self.decay.kept_chunks(self.chunks).sum()) / self.chunks


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """Chunk counts as if no rank read another's rows: the case without cut edges in FlareDTDG's Table 5."""

    counted: ExactChunking
    origin: ClassVar[str] = "METIS, nothing cut"

    def count_blocks(self, epoch: EpochDraws, decay: Decay, ranks: int) -> BlockCounts:
        counts = self.counted.count_blocks(epoch, decay, ranks)
        return replace(counts, halo=0 * counts.halo, sent=0 * counts.sent)

    def count_samples(self, sampling: NeighbourSampling, ranks: int) -> SampleCounts:
        counts = self.counted.count_samples(sampling, ranks)
        return replace(counts, halo=0 * counts.halo, sent=0 * counts.sent)


class SnapshotTestbed(BaseModel):
    """Testbed of REAL's and FlareDTDG's studies: simulated epochs on generated snapshots, scaled to the published size.

    hidden: one width, or one a data set. trains: share of the snapshots, the first ones. models: ours by the paper's names. degrees:
    features of data sets whose task is to predict as many; others have `classes`. windows: FlareDTDG's. fanout: sampled neighbours of a
    node, none: the strategy's own. planned: fields of strategies that are not as usual, by name. solved: strategies with a solver run it
    in every plan. stand_ins: how they are generated. Settings of a point: `copies`: False: host to device copies take no time; `cut`:
    False: no rank reads another's rows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    hidden: int | Mapping[str, int]
    trains: float = 1.0
    models: Mapping[str, str] = {}
    degrees: int = 0
    classes: int = 0
    windows: Windows | None = None
    fanout: tuple[int, ...] = ()
    planned: Mapping[str, Mapping[str, Any]] = {}
    solved: bool = False
    stand_ins: StandIns = LISTED

    def cluster(self, point: StudyPoint) -> Cluster:
        return machines(point.cluster, point.gpus, point.setting("copies", True))

    def workload(self, point: StudyPoint) -> Workload:
        name, width = point.dataset, input_width(point.dataset, self.paper)
        hidden = self.hidden if isinstance(self.hidden, int) else self.hidden[name]
        cut = partition(name, point.gpus, self.trains, self.stand_ins) if strategy(point.strategy).partitioned else None
        stats, kind = statistics(name, self.stand_ins), self.models.get(point.model, point.model)
        if self.windows is None:
            model = model_shape(kind, width, hidden, point.layers)
            return Workload(f"{name}, generated", stats, model, Hyper(variant=point.variant), cut)
        stats, windows = first(stats, self.trains), self.windows
        length = len(stats) - 1 if point.strategy in windows.whole else windows.decay.window
        predicted, task = (self.degrees, "degrees") if width == self.degrees else (self.classes, "classes")
        hyper = Hyper(group_size=length, fanout=self.fanout, recency=Recency(windows.decay, windows.chunks, windows.apart), task=task)
        chunks = counted(name, self.trains, windows.chunks, self.stand_ins)
        chunking = chunks if point.setting("cut", True) else Apart(chunks)
        return Workload(f"{name}, generated", stats, model_shape(kind, width, hidden, point.layers, predicted), hyper, cut, chunking)

    def planner(self, point: StudyPoint) -> Strategy:
        planner = strategy(point.strategy)
        if fields := self.planned.get(point.strategy):
            planner = replace(planner, **fields)  # type: ignore[type-var]  # one with fields is a dataclass
        return Solved() if self.solved and isinstance(planner, RealL) else planner

    def costs(self, point: StudyPoint, cluster: Cluster) -> CostModel:
        return DatasheetCosts(cluster.device)

    def epoch_s(self, point: StudyPoint, schedule: Schedule, trace: Trace) -> float:
        return trace.span_ns / 1e9

    def check(self, replayed: Replayed) -> None:
        memory.check(replayed.schedule, replayed.trace, replayed.cluster)


def testbed(paper: str, **assumed: Any) -> SnapshotTestbed:
    """Return the testbed of REAL's or FlareDTDG's studies. paper: its key. assumed: fields of `SnapshotTestbed`, from its `paper.yaml`."""
    return SnapshotTestbed(paper=paper, **assumed)
