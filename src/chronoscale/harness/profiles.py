"""Profiles: the cost model that an experiment plans and replays with, measured on this machine, named, or of a datasheet."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.families import family_of
from chronoscale.harness.jobs import item, job, load_passes
from chronoscale.harness.machine import seat, this_device
from chronoscale.harness.planners import planners
from chronoscale.harness.runs import Run
from chronoscale.harness.started import find, of_run
from chronoscale.kept import read_json
from chronoscale.modules import fingerprints
from chronoscale.real_exec.environment import device_name, fingerprint
from chronoscale.real_exec.fit import fit, tabulate
from chronoscale.real_exec.kernels import launch_ns
from chronoscale.real_exec.launch import launch
from chronoscale.real_exec.messages import all_reduces
from chronoscale.real_exec.predictor import learn
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, DatasheetCosts, FittedCosts

PASSES = 3  # over the probes at most: a fit sees many tasks of a kind
# What a profile depends on, beside what is trained.
PROFILED = ("threads", "device", "transfer_thread", "bus", "network", "network_latency")
RATE = 1e-3  # of probes, which are timed: a rate that is too large for the experiment is no reason to stop here
PROBED = "profiled.json"  # of a profile: a Profiled


@dataclass(frozen=True, slots=True)
class Profiled:
    """What a profile has timed, the kinds of work; in which run, when (ISO 8601), and the machine's load in the minute before, processes
    that run or wait."""

    kinds: list[str]
    run: str
    at: str
    load: float

    @classmethod
    def read(cls, folder: Path) -> Profiled:
        """Of a profile's folder. Raises UserError for a file that is missing or damaged."""
        return read_json(folder / PROBED, cls, "record of a profile")

    def told(self) -> str:
        """In words."""
        when = datetime.fromisoformat(self.at)
        return (
            f"costs are those that {self.run} fitted {_ago(datetime.now(UTC) - when)} ({when:%Y-%m-%d %H:%M} UTC), when {self.load:.1f} "
            f"processes were busy on {len(os.sched_getaffinity(0))} cores; `chronoscale profile` measures anew"
        )


def _ago(age: timedelta) -> str:
    for seconds, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if (count := int(age.total_seconds() // seconds)) > 0:
            return f"{count} {unit}{'s' * (count > 1)} ago"
    return "less than a minute ago"


def measure(experiment: Experiment, run: Run, folder: Path) -> None:
    """Time probes on this machine and fit: profile.parquet (a row a task), and costs-<ranks>.json for every rank count, in `folder`;
    those of windows of blocks with a predictor."""
    seat(experiment, experiment.ranks)
    device, begun = this_device(experiment), (datetime.now(UTC).isoformat(timespec="seconds"), os.getloadavg()[0])
    work = folder / "work"
    work.mkdir()
    probes, tables = family_of(experiment).probes(experiment, run, work), []
    for ranks in sorted(set(experiment.ranks)):
        found = list(probes.of(ranks))
        if ranks > 1:
            alone = all_reduces(ranks)
            found.append((item(work, alone.name, alone, "", experiment.hyper), alone))
        repeats = min(experiment.repeats, PASSES)
        probing = job(experiment, f"probes-{ranks}", [one for one, _ in found], work)
        launch(
            replace(probing, repeats=repeats, settings=replace(probing.settings, learning_rate=RATE, scale_learning_rate=False)),
            ranks,
            work,
        )
        measured = [(schedule, load_passes(work, one.label)) for one, schedule in found]
        tables.append(tabulate(measured))
        costs = fit(tables[-1], device_name(device), fingerprint(device), experiment.seed, launch_ns(device))
        if "blocks" in _probed(experiment):
            costs = replace(costs, predictor=learn(tables[-1], experiment.seed))
        costs.save(folder / f"costs-{ranks}.json")
    pd.concat(tables, ignore_index=True).to_parquet(folder / "profile.parquet")
    (folder / PROBED).write_text(json.dumps(asdict(Profiled(sorted(_probed(experiment)), run.folder.name, *begun))))
    shutil.rmtree(work)


def _probed(experiment: Experiment) -> set[str]:
    family = family_of(experiment)
    return {family.probed(planner) for planner in planners(experiment).values()}


def fitted(experiment: Experiment, run: Run, ranks: int) -> FittedCosts:
    """Costs fitted on this machine with `ranks` ranks busy.

    Those that the experiment names, or of the newest profile of the same experiment (a warning says which), or measured now as a piece of
    `run`.

    Raises UserError when a named file is not a cost model, or another device's.
    """
    if experiment.costs not in ("auto", "fitted"):
        return _named(experiment, device_name(this_device(experiment)))
    folder = run.folder / "profile"
    if not folder.exists():
        same = known(experiment, run.folder.parent)
        if same is not None:
            warnings.warn(Profiled.read(same.folder / "profile").told(), ChronoscaleWarning, stacklevel=2)
        run.piece("profile", partial(_copy, same.folder / "profile") if same else partial(measure, experiment, run))
    return FittedCosts.load(folder / f"costs-{ranks}.json", experiment.extrapolate)


def known(experiment: Experiment, root: Path) -> Run | None:
    """The newest run in `root` that profiled the same experiment on this machine."""
    key, wanted, newest = experiment.digest(*experiment.work, *PROFILED), _probed(experiment), None
    hashes = fingerprints(experiment.modules)
    for run in find(root):
        if (run.folder / "profile" / PROBED).exists():
            earlier = of_run(run)
            same = earlier.digest(*earlier.work, *PROFILED) == key and set(earlier.ranks) >= set(experiment.ranks)
            if same and _here(run, this_device(experiment)) and run.environment.items() >= hashes.items() and wanted <= _kinds(run):
                newest = run
    return newest


def _kinds(run: Run) -> set[str]:
    """What a run's profile has timed; nothing, with a warning, where its record is damaged."""
    try:
        return set(Profiled.read(run.folder / "profile").kinds)
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
    return _named(experiment, cluster.device.name)


def _named(experiment: Experiment, device: str) -> FittedCosts:
    """The costs that an experiment names, for what runs on `device`. Raises UserError for those of another, unless the experiment lets it:
    then every number says so."""
    found = FittedCosts.load(Path(experiment.costs), experiment.extrapolate)
    try:
        return found.taken(device)
    except UserError as error:
        raise UserError(f"costs: {experiment.costs} was {error}") from None


def rough(experiment: Experiment, run: Run, ranks: int) -> CostModel:
    """Costs before anything is measured: those that the experiment names, of an earlier profile of it (a warning says which), or a
    datasheet's. They plan the first epochs, and may leave the range that they were fitted on.

    Raises UserError for a named file of another device, unless the experiment lets it.
    """
    if experiment.costs not in ("auto", "fitted", "datasheet"):
        return replace(_named(experiment, device_name(this_device(experiment))), extrapolate=True)
    earlier = None if experiment.costs == "datasheet" else known(experiment, run.folder.parent)
    if earlier is not None:
        warnings.warn(Profiled.read(earlier.folder / "profile").told(), ChronoscaleWarning, stacklevel=2)
        return FittedCosts.load(earlier.folder / "profile" / f"costs-{ranks}.json", extrapolate=True)
    return DatasheetCosts(presets.cluster(experiment.cluster).device)
