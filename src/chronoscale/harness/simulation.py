"""Simulation: strategies replayed on 1 to 1024 GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path

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
from chronoscale.simulator.links import LinkGraph
from chronoscale.simulator.memory import check, peaks
from chronoscale.simulator.traffic import Traffic, volumes
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.workload import Workload


def simulate(experiment: Experiment, run: Run, told: Callable[[str], None] = lambda _: None) -> None:
    """A piece `sim-<gpus>-<strategy>` for every point: schedule, trace, bytes by link, and memory: peak bytes, or why it does not fit.

    Raises UserError before anything is planned for a schedule that this machine's memory does not hold; and where no point fits, which
    ends the run: it would not fit the next time. Warns of ranks without work.
    """
    cluster = presets.cluster(experiment.cluster)
    specified = DatasheetCosts(cluster.device, engine=cluster.engine)  # of what happens once, which no profile times
    costs, asked = simulated_costs(experiment, cluster), planners(experiment)
    work = family_of(experiment).workload(experiment)
    affordable(asked, work, experiment.gpus)
    works = partitioned(experiment, work, run)

    def make(gpus: int, name: str, part: Path) -> None:
        planner, machines = asked[name], presets.scaled(cluster, gpus)
        schedule = planned(planner, works[gpus], gpus, costs)
        trace = replay(schedule, machines, costs)
        point = Point(
            strategy=name,
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
        links = LinkGraph.of(machines)
        crossed = volumes(Traffic.of(schedule, machines, links), links, trace.span_ns)
        if len(crossed):
            point = replace(point, busiest_link=str(crossed["link"][0]), link_utilisation=float(crossed["utilisation"][0]))
        crossed.to_csv(part / "links.csv", index=False)
        if planner.partitioned and (partition := works[gpus].partition) is not None:
            point = replace(point, partition=partition.origin)
        if planner.chunked and (chunking := works[gpus].chunking) is not None:
            point = replace(point, partition=chunking.origin)
        if planner.prepares:
            before = replay(preparation(planner, works[gpus], gpus, costs), machines, specified)
            point = replace(point, prepare_s=before.span_ns / 1e9)
        try:
            check(schedule, trace, machines)
        except UserError as error:  # a strategy that does not fit is a result, and the others go on
            point = replace(point, out_of_memory=str(error))
        schedule.save(part / "schedule.parquet")
        trace.save(part / "trace.parquet")
        point.save(part)

    for gpus in experiment.gpus:
        for name in asked:
            told(f"{name} on {gpus} GPUs")
            run.piece(f"sim-{gpus:05d}-{name}", partial(make, gpus, name))
    warn(idle(run))
    if all(point.out_of_memory for point in _points(run)):
        run.finish()
        raise UserError("; ".join(refused(run)))


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
