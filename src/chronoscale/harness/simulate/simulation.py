"""Simulation: strategies replayed on 1 to 1024 GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.execute.profiles import simulated_costs
from chronoscale.harness.idle import Idle, warn
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.planners import planners
from chronoscale.harness.practices import practice_of
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.simulate import streamed as streaming
from chronoscale.harness.simulate.estimate import affordable
from chronoscale.harness.simulate.failures import endured
from chronoscale.harness.simulate.plan_and_replay import simulated
from chronoscale.harness.simulate.point import FILE, Point
from chronoscale.simulator import presets
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.simulator.network.traffic import link_utilisation
from chronoscale.simulator.uncertainty.assumptions import effects
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Workload


def simulate(experiment: Experiment, run: Run, told: Callable[[str], None] = lambda _: None) -> None:
    """A piece `sim-<gpus>-<strategy>` for every point: schedule, trace, bytes by link, and memory: peak bytes, or why it does not fit.
    Where times are uncertain the epoch in every draw, and the trace of the middle one. One that memory does not hold is streamed where its
    strategy can: figures are kept, no schedule and no trace.

    Raises UserError before anything is planned for a schedule that this machine's memory does not hold; and where no point fits, which
    ends the run: it would not fit the next time. Warns of ranks without work.
    """
    cluster = presets.cluster(experiment.cluster)
    _joined(experiment.cluster, presets.scaled(cluster, max(experiment.gpus)))
    costs, asked = simulated_costs(experiment, cluster), planners(experiment)
    work = practice_of(experiment).workload(experiment)
    aside = affordable(asked, work, experiment.gpus)
    works, uncertain = partitioned(experiment, work, run), experiment.uncertainty.stated

    def fewer(name: str, gpus: int) -> tuple[Schedule, Trace]:
        """An epoch on a number of GPUs that failures leave. Raises UserError where there is none."""
        alone = experiment.model_copy(update={"gpus": (gpus,)})
        own = works[gpus] if gpus in works else partitioned(alone, work)[gpus]
        found = simulated(experiment, asked[name], own, gpus, cluster, costs)
        if found.point.out_of_memory:
            raise UserError(found.point.out_of_memory)
        return found.schedule, found.trace

    def make(gpus: int, name: str, part: Path) -> None:
        if (name, gpus) in aside:
            return streaming.point(experiment, asked[name], works[gpus], gpus, cluster, costs, part).save(part)
        found = simulated(experiment, asked[name], works[gpus], gpus, cluster, costs)
        schedule, trace = found.schedule, found.trace
        most = gpus == max(experiment.gpus)
        point = replace(
            found.point,
            effects=effects(schedule, found.machines, costs, uncertain, experiment.seed) if most else (),
            endured=endured(experiment, schedule, trace, partial(fewer, name)),
        )
        link_utilisation(found.crossed, trace.span_ns).to_csv(part / "links.csv", index=False)
        schedule.save(part / "schedule.parquet")
        trace.save(part / "trace.parquet")
        point.save(part)

    for gpus in experiment.gpus:
        for name in asked:
            told(f"{name} on {gpus} GPUs{', streamed: no trace is kept' * ((name, gpus) in aside)}")
            run.piece(f"sim-{gpus:05d}-{name}", partial(make, gpus, name))
    warn(idle(run))
    if all(point.out_of_memory for point in _points(run)):
        run.finish()
        raise UserError("; ".join(refused(run)))


def _joined(name: str, cluster: Cluster) -> None:
    """Raises UserError where a file's fabric does not join as many machines."""
    try:
        LinkGraph.of(cluster)
    except UserError as error:
        raise UserError(f"{name}: {cluster.gpus} GPUs are {cluster.nodes} nodes: {error}") from None


def partitioned(experiment: Experiment, work: Workload, run: Run | None = None) -> Mapping[int, Workload]:
    """The workload for every simulated number of GPUs, its vertices divided where a strategy asks for it. Raises UserError as
    `Trained.estimated`."""
    return practice_of(experiment).estimated(experiment, work, experiment.gpus, run)


def idle(run: Run) -> Idle:
    """Ranks that train nothing, by point."""
    return {(point.strategy, point.gpus): point.idle_ranks for point in _points(run)}


def streamed(run: Run) -> list[str]:
    """What no trace was kept of, in words, one a point."""
    return [f"{point.strategy} on {point.gpus} GPUs: {point.note}" for point in _points(run) if point.summary is not None]


def refused(run: Run) -> list[str]:
    """What does not fit, in words, one a point."""
    return [f"{point.strategy} on {point.gpus} GPUs does not fit: {point.out_of_memory}" for point in _points(run) if point.out_of_memory]


def _points(run: Run) -> list[Point]:
    """Those that are there: a report says what is missing."""
    return [Point.load(folder) for folder in run.pieces("sim-") if (folder / FILE).exists()]
