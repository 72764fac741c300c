"""Experiments: points whose workload is an experiment file's keys, given as the axis `experiment`."""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.replay import Replayed
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.simulator import memory, presets
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Workload

UNREAD = {
    "strategies": "the grid's axis `strategy` says it",
    "gpus": "the grid's axis `gpus` says it",
    "costs": "points are replayed on the cluster's datasheet",
    "extrapolate": "points are replayed on the cluster's datasheet",
}


@cache
def workload_of(keys: str) -> Workload:
    """Return the workload of a study's points whose axis `experiment` holds an experiment file's keys; made once a process.

    keys: those of an experiment file, as JSON. Raises UserError as `chronoscale simulate` does for such a file.
    """
    experiment = experiment_of(keys)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChronoscaleWarning)
        return workflow_of(experiment.family).workload(experiment)


@cache
def experiment_of(keys: str) -> Experiment:
    """Check the experiment file's keys that a study's axis `experiment` holds, and return the experiment.

    keys: as JSON. Raises UserError for a wrong one, and for one that the grid's own axes say.
    """
    given = json.loads(keys)
    if unread := [key for key in UNREAD if key in given]:
        raise UserError(f"the study's experiment: '{unread[0]}' is not read there; {UNREAD[unread[0]]}")
    return check(given, "the study's experiment")


class ExperimentTestbed:
    """Testbed of studies without a paper: a point's axis `experiment` holds an experiment file's keys, which say what is simulated.

    The point's data set, model, cluster and settings with a dot (`training.batch_size`) replace these.
    """

    def keys(self, point: StudyPoint) -> str:
        """Return the experiment file's keys of a study's point, those replaced that the point's own axes set, as JSON."""
        keys: dict[str, Any] = json.loads(point.setting("experiment"))
        for name in ("dataset", "cluster"):
            if given := getattr(point, name):
                keys[name] = {**keys[name], "name": given} if isinstance(keys.get(name), dict) else given
        if point.model:
            keys["model"] = {**keys.get("model", {}), "name": point.model}
        for name, given in point.settings:
            if "." in name:
                above, _, key = name.partition(".")
                keys[above] = {**keys.get(above, {}), key: list(given) if isinstance(given, tuple) else given}
        return json.dumps(keys, sort_keys=True)

    def workload(self, point: StudyPoint) -> Workload:
        return workload_of(self.keys(point))

    def cluster(self, point: StudyPoint) -> Cluster:
        return presets.scaled(presets.cluster(experiment_of(self.keys(point)).cluster), point.gpus)

    def planner(self, point: StudyPoint) -> Strategy:
        return strategy(point.strategy)

    def costs(self, point: StudyPoint, cluster: Cluster) -> CostModel:
        return DatasheetCosts(cluster.device)

    def epoch_s(self, point: StudyPoint, schedule: Schedule, trace: Trace) -> float:
        return trace.span_ns / 1e9

    def check(self, replayed: Replayed) -> None:
        memory.check(replayed.schedule, replayed.trace, replayed.cluster)
