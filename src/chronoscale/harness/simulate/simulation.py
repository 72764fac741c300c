"""Simulation: strategies replayed on 1 to 1024 GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.cost_models import cluster_costs
from chronoscale.harness.planning.estimate import affordable
from chronoscale.harness.runs.idle import warn_of_idle_ranks
from chronoscale.harness.runs.points import idle_ranks, points_of, refused_sentences
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.simulate.assumed import AssumedSetting
from chronoscale.harness.simulate.failures import simulate_failures
from chronoscale.harness.simulate.plan_and_replay import ReplayedEpoch, plan_and_replay
from chronoscale.harness.simulate.streaming import stream_point
from chronoscale.harness.sweep.made_folder import sweep_pieces
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replaying_with
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.simulator.network.traffic import link_utilisation
from chronoscale.simulator.uncertainty.spec import CERTAIN
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Workload


def simulate(experiment: Experiment, run: Run, on_progress: Callable[[str], None] = lambda _: None, dask: str | None = None) -> None:
    """Simulate every strategy of an experiment on every number of GPUs, for `chronoscale simulate`; each fills a piece
    `sim-<gpus>-<strategy>` of the run with schedule, trace, bytes by link, and peak memory, or why it does not fit.

    Where times are uncertain, the epoch in every draw is written, and the trace of the middle one. A schedule that this machine's memory
    does not hold is replayed some iterations at a time where its strategy can: only figures are written. on_progress: called with a line of
    text now and then. dask: address of a scheduler whose workers plan and replay; what reads the dataset (`PointSetting.reads`) stays here.

    Raises UserError before anything is planned for a schedule that this machine's memory does not hold, for one that is replayed some
    iterations at a time where the engine is SimPy; and where no strategy fits in the GPUs' memory, which ends the run: it would not fit the
    next time; and as `on_cluster`. Warns of ranks without work.
    """
    cluster = replace(presets.cluster(experiment.cluster), contention=experiment.contention)
    _check_fabric(experiment.cluster, presets.scaled(cluster, max(experiment.gpus)))
    costs, strategies = cluster_costs(experiment, cluster), planners(experiment)
    workflow = workflow_of(experiment.family)
    work = workflow.workload(experiment)
    streamed = affordable(strategies, work, experiment.gpus)
    if streamed and experiment.engine != "native":
        names = ", ".join(f"{name} on {gpus} GPUs" for name, gpus in sorted(streamed))
        raise UserError(f"engine: {experiment.engine} replays whole epochs alone, and of {names} memory holds a part; leave it out")
    works = workflow.partition_for_simulation(experiment, work, experiment.gpus, run)
    points = [(gpus, name) for gpus in experiment.gpus for name in strategies]
    settings = {
        (gpus, name): PointSetting(
            experiment, strategies[name], gpus, cluster, costs, work, works if experiment.failures else {gpus: works[gpus]}
        )
        for gpus, name in points
    }
    makes = {point: setting.stream if point[::-1] in streamed else setting.simulate for point, setting in settings.items()}
    if dask is not None:
        sent = {_piece(*point): make for point, make in makes.items() if not settings[point].reads}
        sweep_pieces(run, sent, dask, on_progress)
    for (gpus, name), make in makes.items():
        on_progress(f"{name} on {gpus} GPUs{', streamed: no trace is kept' * ((name, gpus) in streamed)}")
        run.piece(_piece(gpus, name), make)
    warn_of_idle_ranks(idle_ranks(run))
    if all(point.out_of_memory for point in points_of(run)):
        run.finish()
        raise UserError("; ".join(refused_sentences(run)))


def assumed_setting(experiment: Experiment) -> AssumedSetting:
    """Return what the joint assumptions of a simulation begin with. Raises UserError as `simulate`."""
    cluster, gpus = replace(presets.cluster(experiment.cluster), contention=experiment.contention), max(experiment.gpus)
    costs, machines = cluster_costs(experiment, cluster), presets.scaled(cluster, gpus)
    return AssumedSetting(
        gpus, machines, costs, experiment.uncertainty.stated, experiment.assumptions.draws, experiment.seed, experiment.engine
    )


def _piece(gpus: int, strategy: str) -> str:
    return f"sim-{gpus:05d}-{strategy}"


@dataclass(frozen=True, slots=True)
class PointSetting:
    """Input of the simulation of one strategy on one number of GPUs, in `chronoscale simulate`.

    work: counts of the dataset, before any partition. works: the same by number of GPUs, partitioned where the strategy plans with that;
    where nothing fails, on `gpus` alone.
    """

    experiment: Experiment
    planner: Strategy
    gpus: int
    cluster: Cluster
    costs: CostModel
    work: Workload
    works: Mapping[int, Workload]

    @property
    def cut(self) -> bool:
        """Whether the strategy plans with the graph in parts or chunks."""
        return self.planner.partitioned or self.planner.chunked

    @property
    def reads(self) -> bool:
        """Whether the simulation reads the dataset: on the GPUs that failures leave, a strategy plans with other parts."""
        return self.experiment.failures is not None and self.cut

    def simulate(self, part: Path) -> None:
        """Plan and replay the epoch, and write its record, schedule, trace and bytes by link to the folder `part`."""
        with replaying_with(self.experiment.engine):
            self._simulate(part)

    def _simulate(self, part: Path) -> None:
        experiment = self.experiment
        result = self._replay(self.works[self.gpus], self.gpus)
        schedule, trace = result.schedule, result.trace
        point = replace(
            result.point,
            constant_bytes=self.works[self.gpus].constant_bytes,
            endured=simulate_failures(experiment.failures, experiment.epochs, experiment.seed, schedule, trace, self.epoch_on),
        )
        link_utilisation(result.crossed, trace.span_ns).to_csv(part / "links.csv", index=False)
        schedule.save(part / "schedule.parquet")
        trace.save(part / "trace.parquet")
        point.save(part)

    def stream(self, part: Path) -> None:
        """Plan and replay the epoch some iterations at a time, and write its record and bytes by link to the folder `part`."""
        experiment = self.experiment
        keys = (("uncertainty", experiment.uncertainty.stated != CERTAIN), ("failures", experiment.failures))
        ignored = " and ".join(name for name, stated in keys if stated)
        stream_point(self.planner, self.works[self.gpus], self.gpus, self.cluster, self.costs, ignored, part).save(part)

    def _replay(self, work: Workload, gpus: int) -> ReplayedEpoch:
        experiment = self.experiment
        return plan_and_replay(self.planner, work, gpus, self.cluster, self.costs, experiment.uncertainty, experiment.seed)

    def epoch_on(self, gpus: int) -> tuple[Schedule, Trace]:
        """Return an epoch on the number of GPUs that failures leave. Raises UserError where there is none."""
        if gpus in self.works:
            work = self.works[gpus]
        elif not self.cut:
            work = self.work
        else:
            work = workflow_of(self.experiment.family).partition_for_simulation(self.experiment, self.work, (gpus,), None)[gpus]
        result = self._replay(work, gpus)
        if result.point.out_of_memory:
            raise UserError(result.point.out_of_memory)
        return result.schedule, result.trace


def _check_fabric(name: str, cluster: Cluster) -> None:
    """Raises UserError where a file's fabric does not join as many machines."""
    try:
        LinkGraph.of(cluster)
    except UserError as error:
        raise UserError(f"{name}: {cluster.gpus} GPUs are {cluster.nodes} nodes: {error}") from None
