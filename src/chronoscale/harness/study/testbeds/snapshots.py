"""Snapshots: points on generated stand-ins of a paper's snapshots, with counts at their published size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict

from chronoscale.batching.snapshots.partition import Cut, metis
from chronoscale.datasets import catalogue
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import COLUMNS, SnapshotStatistics, statistics_of
from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.replay import Replayed
from chronoscale.simulator import memory, presets
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.real.ilp import RealL
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Hyper, Partition, Workload


@cache
def statistics(dataset: str) -> SnapshotStatistics:
    """Return counts of the stand-in for a data set, at its published size."""
    return statistics_of(catalogue.stream(f"{dataset}_like")).scaled(factor(dataset))


@cache
def factor(dataset: str) -> int:
    """Return how many times larger the data set is than its stand-in."""
    stands_for = catalogue.entry(f"{dataset}_like").stands_for
    return stands_for.factor if stands_for else 1


@cache
def sequence(dataset: str, share: float = 1.0) -> SnapshotSequence:
    """Return the stand-in's own snapshots; of them the first `share`."""
    found = catalogue.load(f"{dataset}_like")
    assert isinstance(found, SnapshotSequence)
    return found if share == 1 else found.head(int(share * len(found)))


def first(stats: SnapshotStatistics, share: float) -> SnapshotStatistics:
    """Return the counts of the first `share` of the snapshots."""
    count = int(share * len(stats))
    return replace(stats, **{name: getattr(stats, name)[:count] for name in COLUMNS})


@cache
def partition(dataset: str, parts: int, share: float = 1.0) -> Partition:
    """Return METIS's cut of the stand-in's snapshots, counts at the published size."""
    snapshots = sequence(dataset, share)
    rows, edges, halo, sent = (column * factor(dataset) for column in Cut(metis(snapshots, parts), parts).count(snapshots))
    return Partition(rows, edges, halo, sent, origin="METIS on the stand-in")


def input_width(dataset: str, paper: str) -> int:
    """Return the features of a node that a paper prints; of a stand-in's variant those of the data set that it stands for."""
    stands_for = catalogue.entry(f"{dataset}_like").stands_for
    return int(catalogue.entry(stands_for.dataset if stands_for else dataset).as_published(paper).node_features or 1)


@cache
def machines(name: str, gpus: int, copies: bool = True) -> Cluster:
    """Return a preset with as many machines as `gpus` need. copies: whether host to device transfers take time."""
    found = presets.scaled(presets.cluster(name), gpus)
    return found if copies else replace(found, device=replace(found.device, h2d=Link(math.inf, 0.0)))


class Solved(RealL):
    """REAL-L whose solver runs whatever the certified bound proves; what it warns of, its note says, too."""

    def __init__(self) -> None:
        super().__init__(always=True)

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ChronoscaleWarning)
            return super().plan(workload, ranks, costs)


PLANNERS: Mapping[str, Any] = {"solved": Solved}


class SnapshotTestbed(BaseModel):
    """Settings of a point: `copies`, as `machines` has it; `planner`, a name of `PLANNERS` in the strategy's place."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    hidden: int

    def cluster(self, point: StudyPoint) -> Cluster:
        return machines(point.cluster, point.gpus, point.setting("copies", True))

    def workload(self, point: StudyPoint) -> Workload:
        cut = partition(point.dataset, point.gpus) if strategy(point.strategy).partitioned else None
        model = model_shape(point.model, input_width(point.dataset, self.paper), self.hidden, point.layers)
        return Workload(f"{point.dataset}, generated", statistics(point.dataset), model, Hyper(variant=point.variant), cut)

    def planner(self, point: StudyPoint) -> Strategy:
        planner: Strategy = PLANNERS[name]() if (name := point.setting("planner")) else strategy(point.strategy)
        return planner

    def costs(self, point: StudyPoint, cluster: Cluster) -> CostModel:
        return DatasheetCosts(cluster.device)

    def check(self, replayed: Replayed) -> None:
        memory.check(replayed.schedule, replayed.trace, replayed.cluster)


def testbed(paper: str, **assumed: Any) -> SnapshotTestbed:
    """Return the testbed of a paper."""
    return SnapshotTestbed(paper=paper, **assumed)
