"""Signals: epochs on windows of sensor readings, from printed counts alone."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

from pydantic import BaseModel, ConfigDict

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.replay import Replayed
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.simulator import memory, presets
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Workload


@cache
def _workload(dataset: str, model: str, hidden: int, layers: int, heads: int, batch: int, variant: str) -> Workload:
    training = {"batch_size": batch, "variant": variant}
    of = {"name": model, "hidden": hidden, "layers": layers, "heads": heads}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChronoscaleWarning)
        experiment = check({"dataset": dataset, "model": of, "training": training, "cluster": "polaris"}, "the study's signals")
        return workflow_of(experiment.family).workload(experiment)


class SignalTestbed(BaseModel):
    """Testbed of PGT-I's studies: simulated epochs on windows (slices of a time series) of sensor readings, from printed counts alone.

    hidden: width of the model. batch: windows. efficiency: share of a datasheet's peak that kernels reach. Settings of a point replace
    these, and the cluster's figures: `bandwidth` (bytes/s) and `latency_s` of its data engine (what serves readings of other ranks),
    `launch_s` of a kernel's start; None: the cluster's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    hidden: int
    heads: int
    batch: int
    efficiency: float

    def cluster(self, point: StudyPoint) -> Cluster:
        cluster = presets.scaled(presets.cluster(point.cluster), point.gpus)
        of = {name: given for name, given in point.settings if given is not None}
        launch = of.get("launch_s", cluster.device.launch_s)
        assert cluster.engine is not None
        engine = Link(of.get("bandwidth", cluster.engine.bandwidth), of.get("latency_s", cluster.engine.latency_s))
        return replace(cluster, engine=engine, device=replace(cluster.device, launch_s=launch))

    def workload(self, point: StudyPoint) -> Workload:
        hidden, heads, batch = (point.setting(name, getattr(self, name)) for name in ("hidden", "heads", "batch"))
        return _workload(point.dataset, point.model, hidden, point.layers, heads, batch, point.variant)

    def planner(self, point: StudyPoint) -> Strategy:
        return strategy(point.strategy)

    def costs(self, point: StudyPoint, cluster: Cluster) -> CostModel:
        return DatasheetCosts(cluster.device, point.setting("efficiency", self.efficiency), cluster.engine)

    def epoch_s(self, point: StudyPoint, schedule: Schedule, trace: Trace) -> float:
        return trace.span_ns / 1e9

    def check(self, replayed: Replayed) -> None:
        memory.check(replayed.schedule, replayed.trace, replayed.cluster)


def testbed(paper: str, **assumed: float) -> SignalTestbed:
    """Return the testbed of PGT-I's studies. assumed: fields of `SignalTestbed`, from the paper's `paper.yaml`."""
    return SignalTestbed.model_validate(assumed)
