"""Simulation: strategies replayed on 1 to 1024 GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import NamedTuple

from chronoscale.errors import UserError
from chronoscale.harness.estimate import affordable
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.families import family_of
from chronoscale.harness.idle import Idle, warn
from chronoscale.harness.planners import planned, planners, preparation
from chronoscale.harness.point import FILE, Point
from chronoscale.harness.profiles import simulated_costs
from chronoscale.harness.runs import Run
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check, peaks
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Workload


def simulate(experiment: Experiment, run: Run, told: Callable[[str], None] = lambda _: None) -> None:
    """A piece `sim-<gpus>-<strategy>` for every point: schedule, trace, and memory: peak bytes, or why it does not fit.

    Raises UserError before anything is planned for a schedule that this machine's memory does not hold; and where no point fits, which
    ends the run: it would not fit the next time. Warns of ranks without work.
    """
    cluster = presets.cluster(experiment.cluster)
    costs, asked = simulated_costs(experiment, cluster), planners(experiment)
    work = family_of(experiment).workload(experiment)
    affordable(asked, work, experiment.gpus)
    works = partitioned(experiment, work, run)

    def make(gpus: int, name: str, part: Path) -> None:
        found = simulated(asked[name], works[gpus], gpus, cluster, costs)
        found.schedule.save(part / "schedule.parquet")
        found.trace.save(part / "trace.parquet")
        found.point.save(part)

    for gpus in experiment.gpus:
        for name in asked:
            told(f"{name} on {gpus} GPUs")
            run.piece(f"sim-{gpus:05d}-{name}", partial(make, gpus, name))
    warn(idle(run))
    if all(point.out_of_memory for point in _points(run)):
        run.finish()
        raise UserError("; ".join(refused(run)))


class Simulated(NamedTuple):
    """One strategy on one number of GPUs. A strategy that does not fit in memory is a result, which `point` says."""

    point: Point
    schedule: Schedule
    trace: Trace
    machines: Cluster


def simulated(planner: Strategy, work: Workload, gpus: int, cluster: Cluster, costs: CostModel) -> Simulated:
    """Planned and replayed on as many of the cluster's machines as hold `gpus`. Raises UserError as `planned` and `replay`."""
    machines = presets.scaled(cluster, gpus)
    schedule = planned(planner, work, gpus, costs)
    trace = replay(schedule, machines, costs)
    point = Point(
        strategy=planner.name,
        gpus=gpus,
        peak_bytes=int(peaks(schedule, trace).max()),
        host_bytes=schedule.host,
        costs=costs.name,
        cluster=cluster.name,
        preset_gpus=cluster.gpus,
        gap=None if isnan(schedule.gap) else schedule.gap,
        note=schedule.note,
        idle_ranks=schedule.idle,
    )
    if planner.partitioned and work.partition is not None:
        point = replace(point, partition=work.partition.origin)
    if planner.chunked and work.chunking is not None:
        point = replace(point, partition=work.chunking.origin)
    if planner.prepares:
        specified = DatasheetCosts(cluster.device, engine=cluster.engine)  # of what happens once, which no profile times
        before = replay(preparation(planner, work, gpus, costs), machines, specified)
        point = replace(point, prepare_s=before.span_ns / 1e9)
    try:
        check(schedule, trace, machines)
    except UserError as error:
        point = replace(point, out_of_memory=str(error))
    return Simulated(point, schedule, trace, machines)


def partitioned(experiment: Experiment, work: Workload, run: Run | None = None) -> Mapping[int, Workload]:
    """The workload for every simulated number of GPUs, its vertices divided where a strategy asks for it. Raises UserError as
    `Trained.estimated`."""
    return family_of(experiment).estimated(experiment, work, experiment.gpus, run)


def idle(run: Run) -> Idle:
    """Ranks that train nothing, by point."""
    return {(point.strategy, point.gpus): point.idle_ranks for point in _points(run)}


def refused(run: Run) -> list[str]:
    """What does not fit, in words, one a point."""
    return [f"{point.strategy} on {point.gpus} GPUs does not fit: {point.out_of_memory}" for point in _points(run) if point.out_of_memory]


def _points(run: Run) -> list[Point]:
    """Those that are there: a report says what is missing."""
    return [Point.load(folder) for folder in run.pieces("sim-") if (folder / FILE).exists()]
