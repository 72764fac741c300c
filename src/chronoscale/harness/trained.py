"""Trained: what a training run has left so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chronoscale.harness.idle import Idle
from chronoscale.harness.runs import Run
from chronoscale.kept import read_json
from chronoscale.real_exec.checkpoint import EpochRecord, records
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.plans import TEST
from chronoscale.reports.stages import Activity, Epoch, Staged
from chronoscale.strategies.schedule import Schedule

FOLDER, CONTROL, JOB = "train", "control.json", "train.job.json"
NAIVE = "naive.json"  # errors of naive predictions by name, on what a model is tested on
ERRORS = ("mae", "rmse", "mape")
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Control:
    """CONTROL: what a control plane did, its notes, and the stage and strategy that no epoch was trained in."""

    activities: list[Activity]
    notes: list[str]
    missed: tuple[str, str] | None = None


def result(run: Run, ranks: int) -> Staged:
    """Epochs, what the control plane did meanwhile, and what has to be said."""
    folder = run.folder / FOLDER
    done = records(folder)
    epochs = tuple(map(_shown, done))
    left = control(folder)
    notes = (*left.notes, *scaled(folder, done), *tested(folder))
    return Staged(run.folder.name, ranks, epochs, tuple(left.activities), notes, left.missed, errors(folder))


def errors(folder: Path) -> dict[str, dict[str, float]]:
    """Errors on the test windows by predictor, the model first, if training has come to its end."""
    if not (folder / TEST).exists():
        return {}
    model = dict(zip(ERRORS, read_json(folder / TEST, tuple[float, float, float], "test"), strict=True))
    naive = read_json(folder / NAIVE, dict[str, dict[str, float]], "record of naive forecasts") if (folder / NAIVE).exists() else {}
    return {Job.load(folder / JOB).model.name: model, **naive}


def _shown(r: EpochRecord) -> Epoch:
    mae, rmse, mape = r.errors or (NAN, NAN, NAN)
    return Epoch(r.epoch, r.stage, r.strategy, r.switch_ns, r.start_ns, r.end_ns, r.loss, mae, rmse, mape, max(r.rates, default=NAN))


def scaled(folder: Path, done: Sequence[EpochRecord]) -> list[str]:
    """How the learning rate was scaled, in words, where that changed it."""
    highest: dict[str, float] = {}
    for record in done:
        highest[record.stage] = max((highest.get(record.stage, 0.0), *record.rates))
    settings = Job.load(folder / JOB).settings if any(highest.values()) else Settings()
    if not settings.scale_learning_rate or set(highest.values()) == {settings.learning_rate}:
        return []
    stages = ", ".join(f"{rate:g} in stage '{stage}'" for stage, rate in highest.items())
    base = f"{settings.learning_rate:g}"
    return [
        f"The learning rate of a step is {base} times its groups on all ranks (REAL §7.4): at most {stages}; "
        f"training.scale_learning_rate: false keeps {base}."
    ]


def tested(folder: Path) -> list[str]:
    """The errors of a test in words, if training has come to its end."""
    if not (folder / TEST).exists():
        return []
    mae, rmse, mape = read_json(folder / TEST, tuple[float, float, float], "test")
    beaten = [name for name, error in list(errors(folder).items())[1:] if not mae < error["mae"]]
    said = f"Test windows, after the last epoch: MAE {mae:.4g}, RMSE {rmse:.4g}, MAPE {mape:.2%}."
    return [said, *(f"The model's MAE is no better than that of the {name} alone." for name in beaten)]


def idle(run: Run) -> Idle:
    """Ranks that train nothing, by the schedule that was followed last."""
    plans = sorted((run.folder / FOLDER / "plans").glob("[0-9]*/schedule.parquet"))
    schedule = Schedule.load(plans[-1] if plans else run.folder / FOLDER / "schedule.parquet")
    return {(schedule.name, schedule.ranks): schedule.idle}


def control(folder: Path) -> Control:
    """What a control plane has left so far; nothing where there is none."""
    path = folder / CONTROL
    return read_json(path, Control, "record of the control plane") if path.exists() else Control([], [])
