"""Jobs: experiments executed and trained as the commands do, and epochs on signals as items of jobs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.case import Figures, Passes, Setting

from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.errors import MachineError
from chronoscale.harness.execute import execution
from chronoscale.harness.execute.machine import this_device
from chronoscale.harness.keys.experiment_files import as_yaml, check
from chronoscale.harness.runs.passes import load_schedules, passes_of
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import start
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.environment import fingerprint
from chronoscale.strategies.cluster import Device, Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload
from setups.data import mapped

NO_COSTS = DatasheetCosts(Device("none", 1, 1, 1, Link(1, 0), 0))  # schedules of signals do not ask for any
Settings = Mapping[str, Any]  # keys of an experiment


def experiment_run(folder: Path, settings: Settings, command: str = "bench") -> Run:
    """Execute an experiment as `chronoscale bench` does, and return its run."""
    experiment = check(dict(settings), "bench")
    run, _ = start(folder, command, experiment, as_yaml(experiment), fingerprint(this_device(experiment.device)))
    execution.execute(experiment, run)
    return run


def epochs(settings: Settings, setting: Setting, figures: Callable[[Schedule, Pass], Mapping[str, float]] = lambda plan, one: {}) -> Passes:
    """Execute an experiment on one count of ranks, and return seconds of each strategy's epochs, after one to warm up.

    All strategies take turns in one job. `figures`: others of a pass, computed of it and of its schedule.
    """
    own = {"repeats": setting.repeats, "threads": setting.threads, "device": setting.device}
    run = experiment_run(setting.scratch / "runs", {"costs": "datasheet", **settings, **own})
    (ranks,) = settings["ranks"]
    plans = load_schedules(run.folder / f"ranks-{ranks}")
    return {
        name: [{"seconds": one.trace.span_ns / 1e9, **figures(plans[name], one)} for one in passes_of(run, ranks, name)]
        for name in settings["strategies"]
    }


def losses_agree(passes: Mapping[str, Sequence[Mapping[str, float]]], allowed: float) -> None:
    """Assert that the first epochs of all train alike: figures `loss` differ by at most `allowed` of the first one's."""
    means = {who: several[0]["loss"] for who, several in passes.items()}
    first = next(iter(means.values()))
    assert all(abs(one / first - 1) <= allowed for one in means.values()), f"losses differ: {means}"


def train(
    settings: Settings, count: int, label: str, seeds: Iterator[int], setting: Setting, figures: Callable[[Path], Figures]
) -> Figures:
    """Train an experiment's strategy for `count` epochs as `chronoscale train` does, with the next seed.

    The model of the best validation epoch is tested. Returns seconds of the whole command, and `figures` of the folder that it leaves.
    """
    seed = next(seeds)
    folder = setting.scratch / f"{label}-{seed}"
    folder.mkdir()
    file = folder / "run.yaml"
    file.write_text(json.dumps({**settings, "threads": setting.threads, "device": setting.device, "seed": seed}))  # JSON is YAML
    command = [sys.executable, "-m", "chronoscale", "train", str(file), "--epochs", str(count), "--runs", str(folder / "runs")]
    begin = time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True)
    spent = time.perf_counter() - begin
    if ended.returncode:
        raise MachineError(f"{' '.join(command)}\n{ended.stderr}")
    (trained,) = (folder / "runs").glob("*/train")
    return {"seconds": spent, **figures(trained)}


def signal_item(label: str, name: str, path: Path, ranks: int, hyper: Hyper, model: tuple[str, int], out: Path) -> Item:
    """Return a strategy's epoch on a stored signal and its preparation, planned and saved; `model`: name and hidden width."""
    signal = mapped(path)
    sizes = (len(signal), signal.num_nodes, signal.num_channels, signal.edge_index.shape[1], signal.values.dtype.itemsize)
    shape = forecaster_shape(ModelChoice(*model), *sizes[1:3], hyper.window, hyper.horizon, calendar=signal.calendar)
    work, planner = Workload(path.name, SignalStatistics(*sizes), shape, hyper), strategy(name)
    files = [out / f"{label}.{kind}.parquet" for kind in ("epoch", "prepare")]
    for file, schedule in zip(files, (planner.plan(work, ranks, NO_COSTS), planner.prepare(work, ranks, NO_COSTS)), strict=True):
        schedule.save(file)
    return Item(label, str(files[0]), str(path), hyper, prepare=str(files[1]))
