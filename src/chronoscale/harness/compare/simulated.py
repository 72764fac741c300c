"""Simulated epochs of a comparison: on each number of GPUs, of the schedules that virtual ranks train."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.compare.epoch_setting import EpochSetting, SimulatedEpoch
from chronoscale.harness.compare.outcome import count_gpus
from chronoscale.harness.compare.scale import at_scale, scale_folder, scales_of
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.cost_models import cluster_costs
from chronoscale.harness.planning.estimate import affordable
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.sweep.made_folder import MadeFolder, make_folder
from chronoscale.harness.sweep.sweep import sweep
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.records import read_json
from chronoscale.simulator import presets
from chronoscale.strategies.strategy import Strategy

FILE = "simulated.json"


def simulate_scales(experiment: Experiment, run: Run, on_progress: Callable[[str], None], dask: str | None = None) -> None:
    """Plan every strategy for each number of GPUs of the cluster, on the data as virtual ranks will train on it, and replay each schedule.

    Fills a piece of the run (`scale_folder`) a number of GPUs with schedules, and with epochs (`FILE`), one record a strategy. The cluster
    has as many machines as they take. on_progress: called with a line of text now and then. dask: address of a scheduler whose workers plan
    and replay. Raises UserError as `affordable`, and as `sweep`.
    """
    scales = [at_scale(experiment, gpus) for gpus in scales_of(experiment)]
    missing = [scale for scale in scales if not (run.folder / scale_folder(scale)).exists()]
    if dask is None:
        for scale in missing:
            on_progress(f"simulating epochs on {count_gpus(scale.ranks[0])} of {scale.cluster}")
            _simulate_scale(scale, run)
    else:
        _simulate_elsewhere(missing, run, on_progress, dask)


def _settings(experiment: Experiment, run: Run) -> dict[str, EpochSetting | SimulatedEpoch]:
    """Store and cut the data, once a run; return what is to be simulated of each strategy, or that it is refused already.

    experiment: with one number of ranks. Raises UserError as `affordable`.
    """
    gpus = experiment.ranks[0]
    cluster = replace(presets.cluster(experiment.cluster), contention=experiment.contention)
    costs, workflow = cluster_costs(experiment, cluster), workflow_of(experiment.family)
    data = workflow.store(experiment, run)
    stored = workflow.stored(experiment, data)
    affordable(planners(experiment), stored, [gpus])

    def setting(planner: Strategy) -> EpochSetting | SimulatedEpoch:
        try:
            _, work = workflow.partition(experiment, run, data, stored, gpus, planner)
        except UserError as error:
            return SimulatedEpoch(refused=str(error))
        return EpochSetting(planner, work, gpus, cluster, costs, experiment.uncertainty, experiment.seed, experiment.engine)

    return {name: setting(planner) for name, planner in planners(experiment, executed=True).items()}


def _simulate_scale(experiment: Experiment, run: Run) -> None:
    settings = _settings(experiment, run)

    def make(part: Path) -> None:
        _write(part, {name: one if isinstance(one, SimulatedEpoch) else one.simulate(part) for name, one in settings.items()})

    run.piece(scale_folder(experiment), make)


def _simulate_elsewhere(scales: list[Experiment], run: Run, on_progress: Callable[[str], None], dask: str) -> None:
    """Simulate all strategies of all scales at once; a scale's piece is written when its last strategy is there."""
    settings = {scale_folder(scale): _settings(scale, run) for scale in scales}
    made = {
        piece: {name: MadeFolder(one, {}) for name, one in of_scale.items() if isinstance(one, SimulatedEpoch)}
        for piece, of_scale in settings.items()
    }
    places = dict(enumerate((piece, name) for piece, of_scale in settings.items() for name in of_scale if name not in made[piece]))

    def write(piece: str) -> None:
        if len(made[piece]) < len(settings[piece]):
            return

        def make(part: Path) -> None:
            for folder in made[piece].values():
                folder.write(part)
            _write(part, {name: made[piece][name].result for name in settings[piece]})

        run.piece(piece, make)

    def take(number: int, folder: MadeFolder[SimulatedEpoch]) -> None:
        piece, name = places[number]
        made[piece][name] = folder
        write(piece)
        on_progress(f"simulated {name}, {piece}")

    for piece in settings:  # that of a scale on which all are refused
        write(piece)
    sent = {number: one.simulate for number, (piece, name) in places.items() if isinstance(one := settings[piece][name], EpochSetting)}
    sweep(make_folder, sent, take, dask=dask)


def _write(part: Path, epochs: Mapping[str, SimulatedEpoch]) -> None:
    (part / FILE).write_text(json.dumps({name: asdict(epoch) for name, epoch in epochs.items()}, indent=1))


def simulated_epochs(folder: Path) -> Mapping[str, SimulatedEpoch]:
    """Read the epochs that `simulate_scales` has written to a piece of a run, by strategy. Raises UserError for a damaged file."""
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
