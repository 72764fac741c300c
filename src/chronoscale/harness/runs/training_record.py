"""Record of a training: what it has left in its run's folder so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from chronoscale.datasets.scores import Scores, scores_present
from chronoscale.harness.runs.idle import Idle
from chronoscale.harness.runs.run_folder import Run
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.training.checkpoint import EpochRecord, epoch_records
from chronoscale.real_exec.training.plans import ENDED, TEST, TrainingEnd
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
    """Record of a control plane (`CONTROL`): what it did, its notes, and the stage and strategy that no epoch was trained in."""

    activities: list[Activity]
    notes: list[str]
    missed: tuple[str, str] | None = None


def result(run: Run, ranks: int) -> TrainingRun:
    """Return the epochs trained so far, what the control plane did meanwhile, and sentences to read with them."""
    folder = run.folder / FOLDER
    epochs_done = epoch_records(folder)
    epochs = tuple(map(_shown, epochs_done))
    plane = control(folder)
    end = ended(folder)
    notes = (
        *plane.notes,
        *noted(folder),
        *scaled(folder, epochs_done),
        *launched(epochs_done),
        *early(folder, epochs_done),
        *tested(folder),
    )
    return TrainingRun(
        run.folder.name,
        ranks,
        epochs,
        tuple(plane.activities),
        notes,
        plane.missed,
        scores(folder),
        best=None if end is None else end.best,
        breakdowns=breakdowns(folder, epochs_done),
    )


def launched(epochs: Sequence[EpochRecord]) -> list[str]:
    """Say, by stage, how its last epoch was launched, where CUDA graphs were asked for."""
    last = {record.stage: record.launched for record in epochs}
    return [f"launch: graph: the last epoch of stage '{stage}' was {how}." for stage, how in last.items() if how is not None]


def ended(folder: Path) -> TrainingEnd | None:
    """Return how training came to its end; None where it has not."""
    return read_json(folder / ENDED, TrainingEnd, "record of a training's end") if (folder / ENDED).exists() else None


def breakdowns(folder: Path, epochs: Sequence[EpochRecord]) -> dict[str, Breakdown]:
    """Return the parts of an epoch by stage, of the epochs whose traces were kept."""
    traces: dict[str, list[Trace]] = {}
    for record in epochs:
        if (path := folder / "epochs" / f"{record.epoch:06d}.parquet").exists():
            traces.setdefault(record.stage, []).append(Trace.load(path))
    return {stage: Breakdown.middle(of_stage) for stage, of_stage in traces.items()}


def early(folder: Path, epochs: Sequence[EpochRecord]) -> list[str]:
    """Say where training ended before the epochs that were asked for."""
    end, scores_shown = ended(folder), scores_present(record.scores for record in epochs)
    if end is None or end.best is None or not scores_shown or end.epochs == (asked := Job.load(folder / JOB).repeats):
        return []
    since = end.epochs - 1 - end.best
    later = f"the epoch after epoch {end.best} has" if since == 1 else f"the {since} epochs after epoch {end.best} have"
    return [f"Training ended after {end.epochs} of {asked} epochs: {later} no better {scores_shown[0].title} (training.patience)."]


def scores(folder: Path) -> dict[str, Scores]:
    """Return the test's scores by predictor, the model first, if training has come to its end."""
    if not (folder / TEST).exists():
        return {}
    model = read_json(folder / TEST, Scores, "test")
    naive = read_json(folder / NAIVE, dict[str, Scores], "record of naive predictions") if (folder / NAIVE).exists() else {}
    return {Job.load(folder / JOB).model.name: model, **naive}


def _shown(r: EpochRecord) -> Epoch:
    return Epoch(r.epoch, r.stage, r.strategy, r.switch_ns, r.start_ns, r.end_ns, r.loss, r.scores, max(r.rates, default=NAN))


def scaled(folder: Path, epochs: Sequence[EpochRecord]) -> list[str]:
    """Say how the learning rate was scaled, where that changed it."""
    highest: dict[str, float] = {}
    for record in epochs:
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
    """Say the scores of a test, if training has come to its end; and which naive predictions have the first of them as good."""
    if not (folder / TEST).exists():
        return []
    (_, model), *naive = scores(folder).items()
    if not (scores_shown := scores_present([model])):
        return [f"Test period, {period(folder)}: there is nothing to test on."]
    first = scores_shown[0]
    known = {name: other[first.key] for name, other in naive if not isnan(other.get(first.key, NAN))}
    sentence = f"Test period, {period(folder)}: {', '.join(score.describe(model[score.key]) for score in scores_shown)}."
    beaten = [name for name, value in known.items() if not first.beats(model[first.key], value)]
    return [sentence, *(f"The model's {first.title} is no better than that of the {name} alone." for name in beaten)]


def period(folder: Path) -> str:
    """Say with which epoch's model the test was made."""
    end = ended(folder)
    if end is None or end.best is None:
        return "after the last epoch"
    return f"with the model of epoch {end.best}, the best of 0..{end.epochs - 1}"


def idle_ranks(run: Run) -> Idle:
    """Count the ranks that train nothing, by the schedule that was followed last."""
    plans = sorted((run.folder / FOLDER / "plans").glob("[0-9]*/schedule.parquet"))
    schedule = Schedule.load(plans[-1] if plans else run.folder / FOLDER / "schedule.parquet")
    return {(schedule.name, schedule.ranks): schedule.idle}


def control(folder: Path) -> Control:
    """Return what a control plane has left so far; nothing where there is none."""
    path = folder / CONTROL
    return read_json(path, Control, "record of the control plane") if path.exists() else Control([], [])


def noted(folder: Path) -> list[str]:
    """Return sentences about what was done before the first epoch."""
    return read_json(folder / NOTES, list[str], "notes of a training") if (folder / NOTES).exists() else []
