"""Profiles: the fitted costs that an experiment is planned with on this machine, measured now or taken from an earlier run."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.execute.calibration import OnProgress, ignore_progress, measure_profile
from chronoscale.harness.execute.machine import machines, this_device
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.cost_models import ENGINE, costs_of_file, datasheet_costs, names_cost_file
from chronoscale.harness.runs.noise import PASSES, Noise
from chronoscale.harness.runs.profile_record import PROFILED, ProfileRecord
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.runs.start import find_runs, load_experiment
from chronoscale.harness.workflows.execution import Execution
from chronoscale.modules import fingerprints
from chronoscale.real_exec.measurement.environment import device_name, fingerprint
from chronoscale.real_exec.measurement.rates import DeviceRates, measure_rates
from chronoscale.real_exec.ranks.machines import describe
from chronoscale.records import read_json
from chronoscale.simulator import presets
from chronoscale.strategies.costs import CostModel, DatasheetCosts, FittedCosts
from chronoscale.strategies.plugins import file_of, names_file

FOLDER = "profile"  # a profile's piece of a run
RATES, RATES_FILE = "rates", "rates.json"  # the piece of a run that planned without one
# What a profile depends on, beside what is trained.
PROFILE_KEYS = ("threads", "device", "share_gpu", "transfer_thread", "bus", "network", "network_latency")


def planning_costs(
    execution: Execution[Any], experiment: Experiment, run: Run, ranks: int, on_progress: OnProgress = ignore_progress
) -> CostModel:
    """Return the costs by which strategies plan that ask for durations, for `chronoscale bench`.

    They are a datasheet's where `costs: datasheet` says so; of `fitted_costs` where `costs` says so, names a file, or the experiment was
    profiled before; else of `device_costs`, so that training starts at once.
    """
    if experiment.costs == "datasheet":
        return datasheet_costs(experiment.cluster)
    profiled = (run.folder / FOLDER).exists() or find_profile(experiment, run.folder.parent) is not None
    if experiment.costs == "auto" and not profiled:
        return device_costs(experiment, run)
    return fitted_costs(execution, experiment, run, ranks, on_progress)


def device_costs(experiment: Experiment, run: Run) -> CostModel:
    """Return costs of this machine's device that need no profile: by its datasheet, where the package has one, else by rates that are
    measured in about a second, once a run (a piece of it).
    """
    device = this_device(experiment.device)
    name = device_name(device)
    if device.type == "cuda" and (known := presets.known_device(name)) is not None:
        return DatasheetCosts(known, engine=ENGINE, launch=experiment.launch)
    folder = run.piece(RATES, lambda part: write_text(part / RATES_FILE, json.dumps(asdict(measure_rates(device, experiment.threads)))))
    rates = read_json(folder / RATES_FILE, DeviceRates, "record of a device's rates")
    figures = f"rates, measured in {rates.seconds:.1f} s"
    return DatasheetCosts(rates.device(name, float(experiment.bus or 0)), engine=ENGINE, launch=experiment.launch, figures=figures)


def fitted_costs(
    execution: Execution[Any], experiment: Experiment, run: Run, ranks: int, on_progress: OnProgress = ignore_progress
) -> FittedCosts:
    """Return cost curves fitted on this machine with `ranks` ranks busy, to plan with: of the file that the experiment names; else of the
    newest profile of the same experiment (a warning says which); else of one that is measured now, a piece of `run`.

    Without a file, they may be asked beyond the range that they were fitted on. Raises UserError when a named file is no cost model, or
    another device's.
    """
    if names_cost_file(experiment):
        return costs_of_file(experiment, device_name(this_device(experiment.device)))
    folder = run.folder / FOLDER
    if not folder.exists():
        earlier = find_profile(experiment, run.folder.parent)
        if earlier is not None:
            noise = Noise.load_from(earlier.folder / FOLDER)
            doubt = "" if noise is None or not noise.sentence else f"; {noise.sentence}"
            sentence = ProfileRecord.load_from(earlier.folder / FOLDER).sentence
            warnings.warn(sentence + doubt, ChronoscaleWarning, stacklevel=2)
            run.piece(FOLDER, partial(_copy, earlier.folder / FOLDER))
        else:
            run.piece(FOLDER, partial(measure_profile, execution, experiment, run, on_progress=on_progress))
    return FittedCosts.load(folder / f"costs-{ranks}.json", extrapolate=True)


def rough_costs(experiment: Experiment, run: Run, ranks: int) -> CostModel:
    """Return costs to plan the first epochs of `chronoscale train` with, before anything is measured.

    They are those that the experiment names, of an earlier profile of it (a warning says which), or a datasheet's, and may be asked beyond
    the range that they were fitted on. Raises UserError for a named file of another device, unless the experiment lets it.
    """
    if names_cost_file(experiment):
        return replace(costs_of_file(experiment, device_name(this_device(experiment.device))), extrapolate=True)
    earlier = None if experiment.costs == "datasheet" else find_profile(experiment, run.folder.parent)
    if earlier is not None:
        warnings.warn(ProfileRecord.load_from(earlier.folder / FOLDER).sentence, ChronoscaleWarning, stacklevel=2)
        return FittedCosts.load(earlier.folder / FOLDER / f"costs-{ranks}.json", extrapolate=True)
    return DatasheetCosts(presets.cluster(experiment.cluster).device)


def find_profile(experiment: Experiment, root: Path) -> Run | None:
    """Return the newest run in the folder `root` whose profile serves the experiment; None where there is none.

    Such a profile was made on this machine and these versions, of the same dataset, model, training and settings of ranks, for all of the
    experiment's strategies and numbers of ranks, with no fewer passes.
    """
    key = experiment.digest(*experiment.work, *PROFILE_KEYS)
    strategies, name = set(planners(experiment)), experiment.model.name
    hashes = fingerprints([*experiment.modules, *[file_of(name)] * names_file(name)])
    newest = None
    for run in find_runs(root):
        if (run.folder / FOLDER / PROFILED).exists():
            earlier = load_experiment(run)
            same = earlier.digest(*earlier.work, *PROFILE_KEYS) == key and set(earlier.ranks) >= set(experiment.ranks)
            noise = Noise.load_from(run.folder / FOLDER)
            same = same and (noise is None or noise.passes >= min(experiment.repeats, PASSES))
            same = same and _made_on(run, this_device(experiment.device)) and run.environment.items() >= hashes.items()
            if same and strategies <= _profiled_strategies(run):
                newest = run
    return newest


def _profiled_strategies(run: Run) -> set[str]:
    """The strategies that a run's profile was made for; none, with a warning, where its record is damaged."""
    try:
        return set(ProfileRecord.load_from(run.folder / FOLDER).strategies)
    except UserError as error:
        warnings.warn(f"left aside: {error}", ChronoscaleWarning, stacklevel=2)
        return set()


def _copy(source: Path, part: Path) -> None:
    shutil.copytree(source, part, dirs_exist_ok=True)


def _made_on(run: Run, device: torch.device) -> bool:
    """Whether a run was made on this machine's device with these libraries."""
    here, there = fingerprint(device), run.environment
    same = all(there.get(key) == here[key] for key in ("device", "cores", "torch", "kernels", "chronoscale"))
    return same and run.machines == describe(machines())
