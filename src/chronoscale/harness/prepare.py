"""Prepare: the cost model that an experiment plans and replays with."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import torch

from chronoscale.datasets import store
from chronoscale.errors import UserError
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.runs import Run, find
from chronoscale.harness.signals import data as signals
from chronoscale.harness.snapshots.data import snapshots
from chronoscale.real_exec.environment import device_name, fingerprint
from chronoscale.real_exec.fit import fit, tabulate
from chronoscale.real_exec.interpreter import Pass
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.lanes import lanes_for, threaded
from chronoscale.real_exec.launch import launch
from chronoscale.real_exec.signals.probe import signal_probes
from chronoscale.real_exec.snapshots.probe import all_reduces, probes
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import CostModel, DatasheetCosts, FittedCosts
from chronoscale.strategies.registry import PARTITIONED, SPREAD, signal_strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Family, Hyper, ModelChoice

PASSES = 3  # over the probes at most: a fit sees many tasks of a kind
PROFILED = ("dataset", "model", "training", "groups", "threads", "device", "transfer_thread", "seed")  # what a profile depends on


def measure(experiment: Experiment, run: Run, folder: Path) -> None:
    """Time probes on this machine and fit: profile.parquet (a row a task), and costs-<ranks>.json for every rank count, in `folder`."""
    device = this_device(experiment)
    work = folder / "work"
    work.mkdir()
    probed = _signal_probed(experiment, run, work) if experiment.family is Family.ST else _probed(experiment, work)
    tables = []
    for ranks in sorted(set(experiment.ranks)):
        items, planned = probed(ranks)
        if ranks > 1:
            planned.append(all_reduces(ranks))
            items.append(_item(work, f"all-reduce-{ranks}", planned[-1], "", experiment.hyper))
        repeats = min(experiment.repeats, PASSES)
        launch(replace(job(experiment, f"probes-{ranks}", items, work), repeats=repeats), ranks, work)
        measured = [load_passes(work, item.label, repeats) for item in items]
        tables.append(tabulate(list(zip(planned, measured, strict=True))))
        fit(tables[-1], device_name(device), fingerprint(device), experiment.seed).save(folder / f"costs-{ranks}.json")
    pd.concat(tables, ignore_index=True).to_parquet(folder / "profile.parquet")
    shutil.rmtree(work)


Probed = Callable[[int], tuple[list[Item], list[Schedule]]]  # of a number of ranks


def _probed(experiment: Experiment, work: Path) -> Probed:
    sequence, model = snapshots(experiment), experiment.model
    shape = model_shape(model.name, model.inputs, model.hidden, model.layers)

    def of(ranks: int) -> tuple[list[Item], list[Schedule]]:
        items, planned = [], []
        for probe in probes(sequence, shape, experiment.hyper, ranks, _kinds(experiment), experiment.seed):
            data, label = work / probe.label, f"{probe.label}-x{ranks}"
            if not data.exists():
                store.save(data, probe.snapshots)
            planned.append(probe.schedule)
            items.append(_item(work, label, probe.schedule, str(data), probe.hyper))
            if probe.parts is not None:
                np.save(work / f"{label}.npy", probe.parts)
                items[-1] = replace(items[-1], parts=str(work / f"{label}.npy"))
        return items, planned

    return of


def _signal_probed(experiment: Experiment, run: Run, work: Path) -> Probed:
    data = signals.stored(experiment, run)
    workload = signals.planned(experiment, signals.statistics(signals.mapped(data)))

    def of(ranks: int) -> tuple[list[Item], list[Schedule]]:
        items, planned = [], []
        for probe in signal_probes(workload, [signal_strategy(name) for name in experiment.strategies], ranks):
            prepare = work / f"{probe.feed}-x{ranks}.prepare.parquet"
            if not prepare.exists():
                probe.prepare.save(prepare)
            planned.append(probe.schedule)
            item = _item(work, f"{probe.label}-x{ranks}", probe.schedule, str(data), probe.hyper)
            items.append(replace(item, prepare=str(prepare)))
        return items, planned

    return of


def _item(folder: Path, label: str, schedule: Schedule, data: str, hyper: Hyper) -> Item:
    path = folder / f"{label}.schedule.parquet"
    schedule.save(path)
    return Item(label, str(path), data, hyper)


def job(experiment: Experiment, name: str, items: list[Item], out: Path) -> Job:
    """A job with the experiment's settings."""
    choice, rate = ModelChoice(**experiment.model.model_dump()), experiment.training.learning_rate
    settings = Settings(experiment.threads, rate, experiment.seed, experiment.device, experiment.transfer_thread)
    return Job(name, tuple(items), str(out), choice, experiment.repeats, experiment.warmup, settings)


def load_passes(folder: Path, label: str, repeats: int) -> list[Pass]:
    """What a worker saved of one item."""
    losses, errors = np.load(folder / f"{label}-losses.npy"), np.load(folder / f"{label}-errors.npy")
    return [Pass(Trace.load(folder / f"{label}-r{repeat}.parquet"), losses[repeat], errors[repeat]) for repeat in range(repeats)]


def fitted(experiment: Experiment, run: Run, ranks: int) -> FittedCosts:
    """Costs fitted on this machine with `ranks` ranks busy.

    Those that the experiment names, or of the newest profile of the same experiment, or measured now as a piece of `run`.

    Raises UserError when a named file is not a cost model.
    """
    if experiment.costs not in ("auto", "fitted"):
        return FittedCosts.load(Path(experiment.costs), experiment.extrapolate)
    folder = run.folder / "profile"
    if not folder.exists():
        same = known(experiment, run.folder.parent)
        run.piece("profile", partial(_copy, same.folder / "profile") if same else partial(measure, experiment, run))
    return FittedCosts.load(folder / f"costs-{ranks}.json", experiment.extrapolate)


def known(experiment: Experiment, root: Path) -> Run | None:
    """The newest run in `root` that profiled the same experiment on this machine."""
    key = experiment.digest(*PROFILED)
    profiled = [r for r in find(root) if (r.folder / "profile").exists()]
    same = [r for r in profiled if r.experiment.digest(*PROFILED) == key and _kinds(r.experiment) >= _kinds(experiment)]
    same = [r for r in same if set(r.experiment.ranks) >= set(experiment.ranks) and _here(r)]
    return same[-1] if same else None


def _kinds(experiment: Experiment) -> set[str]:
    """What a profile has to probe for: kinds of schedules on snapshots; each way to feed batches."""
    if experiment.family is Family.ST:
        return {str(signal_strategy(name).feeding) for name in experiment.strategies}
    return {"parts" if name in PARTITIONED else "snapshots" if name in SPREAD else "groups" for name in experiment.strategies}


def _copy(source: Path, part: Path) -> None:
    shutil.copytree(source, part, dirs_exist_ok=True)


def _here(run: Run) -> bool:
    """Whether a profile was made on this machine with these libraries."""
    mine = fingerprint(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    theirs = run.read("environment.json")
    return all(theirs.get(key) == mine[key] for key in ("device", "cores", "torch", "kernels", "chronoscale"))


def simulated_costs(experiment: Experiment, cluster: Cluster) -> CostModel:
    """Costs to replay a large cluster with. Raises UserError for 'fitted' without a file: a profile of which device?"""
    if experiment.costs in ("auto", "datasheet"):
        return DatasheetCosts(cluster.device, engine=cluster.engine)
    if experiment.costs == "fitted":
        raise UserError("costs: to simulate with fitted costs, name the file: costs: runs/<profile run>/profile/costs-1.json")
    return FittedCosts.load(Path(experiment.costs), experiment.extrapolate)


def this_device(experiment: Experiment) -> torch.device:
    """Where the experiment runs here."""
    return torch.device("cuda" if experiment.device != "cpu" and torch.cuda.is_available() else "cpu")


def machine_for(experiment: Experiment, costs: FittedCosts, schedule: Schedule) -> Cluster:
    """`this_machine` as the interpreter runs a schedule on it."""
    return this_machine(experiment, costs, schedule.ranks, threaded(schedule, experiment.transfer_thread))


def this_machine(experiment: Experiment, costs: FittedCosts, ranks: int, host_thread: bool = False) -> Cluster:
    """The machine at hand as the simulator sees it: its lanes as the interpreter runs them, its link as fitted.

    A rank has a GPU's whole memory, or its share of what the machine has available; less where the experiment says so.
    """
    link = costs.collective or Link(bandwidth=1e9, latency_s=0.0)
    device = this_device(experiment)
    there = torch.cuda.mem_get_info(device)[1] * ranks if device.type == "cuda" else psutil.virtual_memory().available
    memory = there if experiment.memory is None else min(there, experiment.memory * ranks)
    cluster = presets.local_cpu(ranks, float(memory), link)
    streams = lanes_for(device, host_thread).streams
    named = replace(cluster.device, name=costs.device, streams=streams)
    if device.type == "cuda":
        return replace(cluster, device=replace(named, on_host=False), host_memory=float(psutil.virtual_memory().available))
    return replace(cluster, device=named)


def schedules(folder: Path) -> dict[str, Schedule]:
    """Schedules saved in a piece, by strategy."""
    return {path.name.removesuffix(".schedule.parquet"): Schedule.load(path) for path in sorted(folder.glob("*.schedule.parquet"))}
