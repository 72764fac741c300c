"""Trained: what a training run has left so far."""

from __future__ import annotations

import json
from pathlib import Path

from chronoscale.harness.runs import Run
from chronoscale.real_exec.checkpoint import records
from chronoscale.real_exec.plans import TEST
from chronoscale.reports.stages import Activity, Epoch, Staged

FOLDER, CONTROL = "train", "control.json"


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
    mae, rmse, mape = json.loads((folder / TEST).read_text())
    return [f"Test windows, after the last epoch: MAE {mae:.4g}, RMSE {rmse:.4g}, MAPE {mape:.2%}."]


def control(folder: Path) -> tuple[list[Activity], list[str]]:
    """What a control plane did, and its notes; nothing where there is none."""
    path = folder / CONTROL
    data = json.loads(path.read_text()) if path.exists() else {"activities": [], "notes": []}
    return [Activity(**activity) for activity in data["activities"]], data["notes"]
