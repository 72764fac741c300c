"""Trained: what a training run has left so far."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chronoscale.harness.idle import Idle
from chronoscale.harness.runs import Run
from chronoscale.kept import read_json
from chronoscale.real_exec.checkpoint import records
from chronoscale.real_exec.plans import TEST
from chronoscale.reports.stages import Activity, Epoch, Staged
from chronoscale.strategies.schedule import Schedule

FOLDER, CONTROL = "train", "control.json"


@dataclass(frozen=True, slots=True)
class Control:
    """CONTROL: what a control plane did, and its notes."""

    activities: list[Activity]
    notes: list[str]


def result(run: Run, ranks: int) -> Staged:
    """Epochs, what the control plane did meanwhile, and what has to be said."""
    folder = run.folder / FOLDER
    epochs = tuple(Epoch(r.epoch, r.stage, r.strategy, r.switch_ns, r.start_ns, r.end_ns, r.loss, *r.errors) for r in records(folder))
    activities, notes = control(folder)
    return Staged(run.folder.name, ranks, epochs, tuple(activities), (*notes, *tested(folder)))


def tested(folder: Path) -> list[str]:
    """The errors of a test in words, if training has come to its end."""
    if not (folder / TEST).exists():
        return []
    mae, rmse, mape = read_json(folder / TEST, tuple[float, float, float], "test")
    return [f"Test windows, after the last epoch: MAE {mae:.4g}, RMSE {rmse:.4g}, MAPE {mape:.2%}."]


def idle(run: Run) -> Idle:
    """Ranks that train nothing, by the schedule that was followed last."""
    plans = sorted((run.folder / FOLDER / "plans").glob("[0-9]*/schedule.parquet"))
    schedule = Schedule.load(plans[-1] if plans else run.folder / FOLDER / "schedule.parquet")
    return {(schedule.name, schedule.ranks): schedule.idle}


def control(folder: Path) -> tuple[list[Activity], list[str]]:
    """What a control plane did, and its notes; nothing where there is none."""
    path = folder / CONTROL
    found = read_json(path, Control, "record of the control plane") if path.exists() else Control([], [])
    return found.activities, found.notes
