"""Profiles: the cost model that an experiment plans and replays with, measured on this machine, named, or of a datasheet."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.execute.calibration import PROBED, Profiled, Told, measure
from chronoscale.harness.execute.machine import this_device
from chronoscale.harness.execute.noise import PASSES, Noise
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.planners import planned, planners
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import find, of_run
from chronoscale.modules import fingerprints
from chronoscale.real_exec.measurement.environment import device_name, fingerprint
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costing.request import CostsNeeded, UnmeasuredCosts
from chronoscale.strategies.costs import CostModel, DatasheetCosts, FittedCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload

# What a profile depends on, beside what is trained.
PROFILED = ("threads", "device", "share_gpu", "transfer_thread", "bus", "network", "network_latency")


def named(experiment: Experiment) -> bool:
    """Whether the experiment names a file of costs."""
    return experiment.costs not in ("auto", "fitted", "datasheet")


def planned_here(planner: Strategy, work: Workload, ranks: int, costs: Callable[[], CostModel]) -> Schedule:
    """As `planned`; `costs()`, which may have to be measured, are asked for by a plan that needs them alone."""
    try:
        return planned(planner, work, ranks, UnmeasuredCosts())
    except CostsNeeded:
        return planned(planner, work, ranks, costs())


def fitted(experiment: Experiment, run: Run, ranks: int, told: Told = lambda _: None) -> FittedCosts:
    """Costs to plan with on this machine with `ranks` ranks busy; they may leave the range that they were fitted on.

    Those that the experiment names, or of the newest profile of the same experiment (a warning says which), or measured now as a piece of
    `run`.

    Raises UserError when a named file is not a cost model, or another device's.
    """
    if experiment.costs not in ("auto", "fitted"):
        return of_file(experiment)
    folder = run.folder / "profile"
    if not folder.exists():
        same = known(experiment, run.folder.parent)
        if same is not None:
            noise = Noise.of(same.folder / "profile")
            quiet = "" if noise is None or not noise.told else f"; {noise.told}"
            warnings.warn(Profiled.read(same.folder / "profile").told() + quiet, ChronoscaleWarning, stacklevel=2)
        make = partial(_copy, same.folder / "profile") if same else partial(measure, experiment, run, told=told)
        run.piece("profile", make)
    return FittedCosts.load(folder / f"costs-{ranks}.json", extrapolate=True)


def of_file(experiment: Experiment) -> FittedCosts:
    """The costs that an experiment names, for this machine. Raises UserError as `_named`."""
    return _named(experiment, device_name(this_device(experiment)))


def known(experiment: Experiment, root: Path) -> Run | None:
    """The newest run in `root` that profiled the same experiment on this machine, for its strategies or more, in as many passes."""
    key, wanted, newest = experiment.digest(*experiment.work, *PROFILED), set(planners(experiment)), None
    hashes = fingerprints(experiment.modules)
    for run in find(root):
        if (run.folder / "profile" / PROBED).exists():
            earlier = of_run(run)
            same = earlier.digest(*earlier.work, *PROFILED) == key and set(earlier.ranks) >= set(experiment.ranks)
            passed = Noise.of(run.folder / "profile")
            same = same and (passed is None or passed.passes >= min(experiment.repeats, PASSES))
            if same and _here(run, this_device(experiment)) and run.environment.items() >= hashes.items() and wanted <= _knows(run):
                newest = run
    return newest


def _knows(run: Run) -> set[str]:
    """The strategies that a run's profile was made for; none, with a warning, where its record is damaged."""
    try:
        return set(Profiled.read(run.folder / "profile").strategies)
    except UserError as error:
        warnings.warn(f"left aside: {error}", ChronoscaleWarning, stacklevel=2)
        return set()


def _copy(source: Path, part: Path) -> None:
    shutil.copytree(source, part, dirs_exist_ok=True)


def _here(run: Run, device: torch.device) -> bool:
    """Whether a profile was made on this machine's device with these libraries."""
    mine = fingerprint(device)
    theirs = run.environment
    return all(theirs.get(key) == mine[key] for key in ("device", "cores", "torch", "kernels", "chronoscale"))


def simulated_costs(experiment: Experiment, cluster: Cluster) -> CostModel:
    """Costs to replay a large cluster with. Raises UserError for 'fitted' without a file: a profile of which device?, for a file of another
    device than the cluster's unless the experiment lets it, and for launches that a profile cannot tell."""
    if experiment.costs in ("auto", "datasheet"):
        return DatasheetCosts(cluster.device, engine=cluster.engine, launch=experiment.launch)
    if experiment.costs == "fitted":
        raise UserError("costs: to simulate with fitted costs, name the file: costs: runs/<profile run>/profile/costs-1.json")
    if experiment.launch != "eager":
        raise UserError(f"launch: {experiment.launch} is reckoned from a datasheet; fitted costs are of kernels launched one by one")
    found = _named(experiment, cluster.device.name)
    return found if found.taken_for else replace(found, peaks=cluster.device)


def _named(experiment: Experiment, device: str) -> FittedCosts:
    """The costs that an experiment names, for what runs on `device`. Raises UserError for those of another, unless the experiment lets it:
    then every number says so."""
    found = FittedCosts.load(Path(experiment.costs), experiment.extrapolate)
    if found.fingerprint.get("share_gpu") and not experiment.share_gpu:
        if not experiment.extrapolate:
            reason = "fitted on ranks that share a GPU; name a profile of others, or set extrapolate: true (every number then says so)"
            raise UserError(f"costs: {experiment.costs} was {reason}")
        return replace(found, taken_for=device)
    try:
        return found.for_device(device)
    except UserError as error:
        raise UserError(f"costs: {experiment.costs} was {error}") from None


def rough(experiment: Experiment, run: Run, ranks: int) -> CostModel:
    """Costs before anything is measured: those that the experiment names, of an earlier profile of it (a warning says which), or a
    datasheet's. They plan the first epochs, and may leave the range that they were fitted on.

    Raises UserError for a named file of another device, unless the experiment lets it.
    """
    if named(experiment):
        return replace(of_file(experiment), extrapolate=True)
    earlier = None if experiment.costs == "datasheet" else known(experiment, run.folder.parent)
    if earlier is not None:
        warnings.warn(Profiled.read(earlier.folder / "profile").told(), ChronoscaleWarning, stacklevel=2)
        return FittedCosts.load(earlier.folder / "profile" / f"costs-{ranks}.json", extrapolate=True)
    return DatasheetCosts(presets.cluster(experiment.cluster).device)
