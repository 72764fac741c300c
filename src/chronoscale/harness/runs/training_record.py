"""Trained: what a training run has left so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from chronoscale.datasets.scores import Scores, scores_present
from chronoscale.harness.idle import Idle
from chronoscale.harness.runs.run_folder import Run
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.training.checkpoint import EpochRecord, records
from chronoscale.real_exec.training.plans import ENDED, TEST, Ended
from chronoscale.records import read_json
from chronoscale.reports.breakdown import Breakdown
from chronoscale.reports.training_run import Activity, Epoch, TrainingRun
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace

FOLDER, CONTROL, JOB = "train", "control.json", "train.job.json"
NAIVE = "naive.json"  # scores of naive predictions by name, on what a model is tested on
NOTES = "notes.json"  # sentences of what a family did before the first epoch
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Control:
    """CONTROL: what a control plane did, its notes, and the stage and strategy that no epoch was trained in."""

    activities: list[Activity]
    notes: list[str]
    missed: tuple[str, str] | None = None


def result(run: Run, ranks: int) -> TrainingRun:
    """Epochs, what the control plane did meanwhile, and what has to be said."""
    folder = run.folder / FOLDER
    done = records(folder)
    epochs = tuple(map(_shown, done))
    left = control(folder)
    over = ended(folder)
    notes = (*left.notes, *noted(folder), *scaled(folder, done), *launched(done), *early(folder, done), *tested(folder))
    return TrainingRun(
        run.folder.name,
        ranks,
        epochs,
        tuple(left.activities),
        notes,
        left.missed,
        scores(folder),
        best=None if over is None else over.best,
        breakdowns=breakdowns(folder, done),
    )


def launched(done: Sequence[EpochRecord]) -> list[str]:
    """By stage, how its last epoch was launched, where CUDA graphs were asked for."""
    last = {record.stage: record.launched for record in done}
    return [f"launch: graph: the last epoch of stage '{stage}' was {how}." for stage, how in last.items() if how is not None]


def ended(folder: Path) -> Ended | None:
    """How training came to its end; None where it has not."""
    return read_json(folder / ENDED, Ended, "record of a training's end") if (folder / ENDED).exists() else None


def breakdowns(folder: Path, done: Sequence[EpochRecord]) -> dict[str, Breakdown]:
    """By stage, of the epochs whose traces were kept."""
    traces: dict[str, list[Trace]] = {}
    for record in done:
        if (path := folder / "epochs" / f"{record.epoch:06d}.parquet").exists():
            traces.setdefault(record.stage, []).append(Trace.load(path))
    return {stage: Breakdown.middle(found) for stage, found in traces.items()}


def early(folder: Path, done: Sequence[EpochRecord]) -> list[str]:
    """In words, where training ended before the epochs that were asked for."""
    over, shown = ended(folder), scores_present(record.scores for record in done)
    if over is None or over.best is None or not shown or over.epochs == (asked := Job.load(folder / JOB).repeats):
        return []
    since = over.epochs - 1 - over.best
    what = f"the epoch after epoch {over.best} has" if since == 1 else f"the {since} epochs after epoch {over.best} have"
    return [f"Training ended after {over.epochs} of {asked} epochs: {what} no better {shown[0].title} (training.patience)."]


def scores(folder: Path) -> dict[str, Scores]:
    """Scores of the test by predictor, the model first, if training has come to its end."""
    if not (folder / TEST).exists():
        return {}
    model = read_json(folder / TEST, Scores, "test")
    naive = read_json(folder / NAIVE, dict[str, Scores], "record of naive predictions") if (folder / NAIVE).exists() else {}
    return {Job.load(folder / JOB).model.name: model, **naive}


def _shown(r: EpochRecord) -> Epoch:
    return Epoch(r.epoch, r.stage, r.strategy, r.switch_ns, r.start_ns, r.end_ns, r.loss, r.scores, max(r.rates, default=NAN))


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
    """The scores of a test in words, if training has come to its end; and which naive predictions have the first of them as good."""
    if not (folder / TEST).exists():
        return []
    (_, model), *naive = scores(folder).items()
    if not (shown := scores_present([model])):
        return [f"Test period, {period(folder)}: there is nothing to test on."]
    first = shown[0]
    known = {name: other[first.key] for name, other in naive if not isnan(other.get(first.key, NAN))}
    said = f"Test period, {period(folder)}: {', '.join(score.describe(model[score.key]) for score in shown)}."
    beaten = [name for name, value in known.items() if not first.beats(model[first.key], value)]
    return [said, *(f"The model's {first.title} is no better than that of the {name} alone." for name in beaten)]


def period(folder: Path) -> str:
    """With which epoch's model the test was made, in words."""
    over = ended(folder)
    if over is None or over.best is None:
        return "after the last epoch"
    return f"with the model of epoch {over.best}, the best of 0..{over.epochs - 1}"


def idle(run: Run) -> Idle:
    """Ranks that train nothing, by the schedule that was followed last."""
    plans = sorted((run.folder / FOLDER / "plans").glob("[0-9]*/schedule.parquet"))
    schedule = Schedule.load(plans[-1] if plans else run.folder / FOLDER / "schedule.parquet")
    return {(schedule.name, schedule.ranks): schedule.idle}


def control(folder: Path) -> Control:
    """What a control plane has left so far; nothing where there is none."""
    path = folder / CONTROL
    return read_json(path, Control, "record of the control plane") if path.exists() else Control([], [])


def noted(folder: Path) -> list[str]:
    """What was done before the first epoch, in words."""
    return read_json(folder / NOTES, list[str], "notes of a training") if (folder / NOTES).exists() else []
