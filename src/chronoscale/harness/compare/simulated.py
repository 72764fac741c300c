"""Simulated epochs of a comparison: on each number of GPUs, of the schedules that virtual ranks train."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.compare.outcome import count_gpus
from chronoscale.harness.compare.scale import at_scale, scale_folder, scales_of
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.cost_models import cluster_costs
from chronoscale.harness.planning.estimate import affordable
from chronoscale.harness.planning.schedules import plan_preparation
from chronoscale.harness.runs.passes import PREPARATION, SCHEDULE
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.simulate.plan_and_replay import plan_and_replay
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.records import read_json
from chronoscale.simulator import presets

FILE = "simulated.json"


@dataclass(frozen=True, slots=True)
class SimulatedEpoch:
    """Epoch of one strategy on the GPUs of one scale of `chronoscale compare`.

    seconds: in every draw of what is uncertain, one where nothing is. peak_bytes: of the fullest GPU. costs: by name. idle: GPUs without
    work. refused: why there is no such epoch,
    as the strategy cannot be planned for so many GPUs, or does not fit in their memory; '' where there is one.
    """

    seconds: tuple[float, ...] = ()
    peak_bytes: int = 0
    costs: str = ""
    idle: int = 0
    refused: str = ""


def simulate_scale(experiment: Experiment, run: Run) -> None:
    """Plan every strategy for so many GPUs of the cluster, on the data as virtual ranks will train on it, and replay each schedule.

    Fills a piece of the run (`scale_folder`) with schedules, and with epochs (`FILE`), one record a strategy. experiment: with one number
    of ranks. The cluster has as many machines as they take. Raises UserError as `affordable`.
    """
    gpus = experiment.ranks[0]
    cluster = replace(presets.cluster(experiment.cluster), contention=experiment.contention)
    costs, workflow = cluster_costs(experiment, cluster), workflow_of(experiment)
    data = workflow.store(experiment, run)
    stored = workflow.stored(experiment, data)
    affordable(planners(experiment), stored, [gpus])

    def epoch(name: str, part: Path) -> SimulatedEpoch:
        planner = planners(experiment, executed=True)[name]
        try:
            _, work = workflow.partition(experiment, run, data, stored, gpus, planner)
            result = plan_and_replay(planner, work, gpus, cluster, costs, experiment.uncertainty, experiment.seed)
        except UserError as error:
            return SimulatedEpoch(refused=str(error))
        if result.point.out_of_memory:
            return SimulatedEpoch(refused=result.point.out_of_memory)
        result.schedule.save(part / f"{name}{SCHEDULE}")
        if planner.prepares:
            plan_preparation(planner, work, gpus, costs).save(part / f"{name}{PREPARATION}")
        point = result.point
        return SimulatedEpoch(point.draws_s or (result.trace.span_ns / 1e9,), point.peak_bytes, point.costs, point.idle_ranks)

    def make(part: Path) -> None:
        epochs = {name: asdict(epoch(name, part)) for name in experiment.strategies}
        (part / FILE).write_text(json.dumps(epochs, indent=1))

    run.piece(scale_folder(experiment), make)


def simulated_epochs(folder: Path) -> Mapping[str, SimulatedEpoch]:
    """Read the epochs that `simulate_scale` has written to a piece of a run, by strategy. Raises UserError for a damaged file."""
    return read_json(folder / FILE, dict[str, SimulatedEpoch], "simulated epochs")


def refused_sentences(experiment: Experiment, run: Run) -> list[str]:
    """Return a sentence for each strategy that `chronoscale compare` leaves out on a number of GPUs, and why."""
    return [f"{name} on {count_gpus(gpus)} is left out: {epoch.refused}" for gpus, name, epoch in _epochs(experiment, run) if epoch.refused]


def remark_sentences(experiment: Experiment, run: Run) -> list[str]:
    """Return sentences on the simulated epochs of a run of `chronoscale compare`: by which costs, and whose GPUs have no work."""
    epochs = [(gpus, name, epoch) for gpus, name, epoch in _epochs(experiment, run) if not epoch.refused]
    costs = [f"times of operations: {', '.join(named)}"] if (named := sorted({epoch.costs for _, _, epoch in epochs})) else []
    return costs + [f"{name} on {count_gpus(gpus)}: {epoch.idle} without work" for gpus, name, epoch in epochs if epoch.idle]


def _epochs(experiment: Experiment, run: Run) -> Iterator[tuple[int, str, SimulatedEpoch]]:
    """Yield what was simulated: number of GPUs, strategy, epoch."""
    for gpus in scales_of(experiment) if experiment.virtual else ():
        for name, epoch in simulated_epochs(run.folder / scale_folder(at_scale(experiment, gpus))).items():
            yield gpus, name, epoch
