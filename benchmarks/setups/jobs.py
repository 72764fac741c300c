"""Jobs: strategies planned, executed pass by pass in turn on ranks of their own, and what their passes took."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from chronoscale.harness.execute import execution
from chronoscale.harness.execute.jobs import make_item
from chronoscale.harness.execute.machine import this_device
from chronoscale.harness.keys.experiment_files import as_yaml, check
from chronoscale.harness.runs.passes import load_passes
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import start
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.measurement.environment import fingerprint
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.strategies.costs import UNUSED, CostModel
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import ModelChoice, Workload


def plans(work: Workload, names: Sequence[str], ranks: int, costs: CostModel = UNUSED) -> dict[str, Schedule]:
    """Return the schedules of strategies."""
    return {name: strategy(name).plan(work, ranks, costs) for name in names}


def execute(
    schedules: Mapping[str, Schedule],
    work: Workload,
    choice: ModelChoice,
    data: Path,
    repeats: int,
    ranks: int,
    settings: Settings,
    parts: str = "",
) -> dict[str, list[Pass]]:
    """Return the passes of each strategy, after one to warm up; all take turns in one job."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        items = tuple(replace(make_item(out, key, plan, data, work.hyper), parts=parts) for key, plan in schedules.items())
        launch(Job("benchmark", items, str(out), choice, repeats, 1, settings), ranks, out)
        return {key: load_passes(out, key) for key in schedules}


def figures(
    passes: Mapping[str, Sequence[Pass]], others: Callable[[str, Pass], Mapping[str, float]] = lambda who, one: {}
) -> dict[str, list[dict[str, float]]]:
    """Return seconds of the epochs of passes, and other figures, which are computed of a strategy and its pass."""
    return {who: [{"seconds": one.trace.span_ns / 1e9, **others(who, one)} for one in several] for who, several in passes.items()}


def losses_agree(passes: Mapping[str, Sequence[Pass]], allowed: float) -> None:
    """Assert that the first epochs of all train alike: their mean losses differ by at most `allowed` of the first one's."""
    means = {key: float(np.mean(several[0].losses)) for key, several in passes.items()}
    first = next(iter(means.values()))
    assert all(abs(one / first - 1) <= allowed for one in means.values()), f"losses differ: {means}"


def experiment_run(folder: Path, settings: Mapping[str, object], command: str = "bench") -> Run:
    """Execute an experiment as `chronoscale bench` does, and return its run."""
    experiment = check(dict(settings), "bench")
    run, _ = start(folder, command, experiment, as_yaml(experiment), fingerprint(this_device(experiment.device)))
    execution.execute(experiment, run)
    return run
