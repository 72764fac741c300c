"""FlareDTDG, executed: epochs on real snapshots, degrees of the next month predicted, on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chronoscale.datasets import catalogue
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError
from chronoscale.harness.execute.training import run_training
from chronoscale.harness.keys.experiment_files import as_yaml, check
from chronoscale.harness.runs.start import start
from chronoscale.harness.runs.training_record import FOLDER, scores
from chronoscale.harness.study.hooks.flaredtdg import GB, bed
from chronoscale.harness.study.point import StudyPoint
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.schedule import Schedule


def months(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split names into data sets of snapshots that are installed, and a note for each that is not.

    For FlareDTDG's executed Figures 6 and 8 and Table 3.
    """
    present, absent = list[str](), list[str]()
    for name in names:
        try:
            assert isinstance(catalogue.load(name), SnapshotSequence)
            present.append(name)
        except UserError as error:
            absent.append(f"Skipped: {error}.")
    return present, absent


def training(point: StudyPoint) -> dict[str, Any]:
    """Train a point of FlareDTDG's studies on this machine, one rank, to predict the next month's degrees (Figures 6 and 8, Table 3).

    Lists by epoch: `seconds`, when it `ended` (s of training so far), `validation` MSE. `epoch_s`: the least; `test` MSE of the best
    epoch's model, `naive` MSE of predictions that learn nothing, by name; `peak_gb` of the device, as planned. Settings: `rate` of
    learning, `width`, `epochs`, and `full` (whole snapshots), `alpha` (share kept of the oldest) of the window. Raises UserError as
    `chronoscale train`.
    """
    windows, of = bed().windows, dict(point.settings)
    assert windows is not None
    length, full = windows.decay.window, of.get("full", windows.full)
    alpha = of.get("alpha", windows.alpha)
    window = {"full": full, "decayed": length - full, "alpha": alpha, "chunks": windows.chunks, "group_size": length}
    window["split"] = "whole" if windows.apart else "crossed"
    task = {"task": "degrees", "validation": 0.1, "test": 0.2, "learning_rate": of["rate"], "scale_learning_rate": False}
    model = {"name": bed().models.get(point.model, point.model), "hidden": of["width"], "layers": point.layers}
    keys = {"dataset": point.dataset, "model": model, "training": {**window, **task}, "strategies": [point.strategy]}
    experiment = check({**keys, "ranks": [1], "epochs": of["epochs"]}, "flaredtdg")
    with tempfile.TemporaryDirectory() as name:
        run, _ = start(Path(name), "train", experiment, as_yaml(experiment), {})
        run_training(experiment, run)
        folder = run.folder / FOLDER
        done, tested = epoch_records(folder), scores(folder)
        (plan,) = folder.glob("plans/*/schedule.parquet")
        peak = planned_gb(Schedule.load(plan))
    errors = {name: float(one["mse"]) for name, one in tested.items()}
    own, *others = errors
    seconds = [(record.end_ns - record.start_ns) / 1e9 for record in done]
    return {
        "seconds": seconds, "epoch_s": min(seconds), "ended": [(record.end_ns - done[0].start_ns) / 1e9 for record in done],
        "validation": [float(record.scores["mse"]) for record in done],
        "test": errors[own], "naive": {name: errors[name] for name in others}, "peak_gb": peak,
    }  # fmt: skip


def planned_gb(schedule: Schedule) -> float:
    """Return the GB that the fullest rank's device holds at its peak by a schedule, for FlareDTDG's executed studies."""
    machine = presets.local_cpu(schedule.ranks, 1e12, Link(1e9, 1e-4))
    return float(peaks(schedule, replay(schedule, machine, DatasheetCosts(machine.device))).max()) / GB
