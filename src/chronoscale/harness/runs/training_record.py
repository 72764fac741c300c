"""Record of a training: what it has left in its run's folder so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from chronoscale.datasets.scores import Scores, scores_present
from chronoscale.harness.runs.idle import Idle
from chronoscale.harness.runs.rival_record import read_rivals
from chronoscale.harness.runs.run_folder import Run
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.training.epoch_record import EpochRecord, epoch_records
from chronoscale.real_exec.training.training_end import ENDED, EVALUATION, HORIZON, TEST, EvaluationRecord, TrainingEnd
from chronoscale.records import read_json
from chronoscale.reports.breakdown import Breakdown
from chronoscale.reports.horizon import Horizon
from chronoscale.reports.rival_verdict import rival_verdict
from chronoscale.reports.training_run import Activity, Epoch, TrainingRun
from chronoscale.strategies.plugins import title_of
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace

FOLDER, CONTROL, JOB = "train", "control.json", "train.job.json"
NOTES = "notes.json"  # sentences of what a family did before the first epoch
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Control:
    """Record of what planned in the background while ranks trained in REAL's stages: the control plane's `control.json` in a run's `train`.

    missed: stage and strategy that no epoch was trained in, None where there is none.
    """

    activities: list[Activity]
    notes: list[str]
    missed: tuple[str, str] | None = None


def result(run: Run, ranks: int) -> TrainingRun:
    """Read what a run of `chronoscale train` has trained so far on `ranks` ranks, for its table and reports: epochs, scores, notes."""
    folder = run.folder / FOLDER
    epochs_done = epoch_records(folder)
    epochs = tuple(map(_shown, epochs_done))
    plane = control(folder)
    end = ended(folder)
    sentences = verdict(folder)
    notes = (
        *sentences,
        *virtual(folder),
        *resized(epochs_done),
        *plane.notes,
        *noted(folder),
        *scaled(folder, epochs_done),
        *launched(epochs_done),
        *early(folder, epochs_done),
        *validated(folder),
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
        horizon=horizon(folder),
        rivals=read_rivals(folder),
        best=None if end is None else end.best,
        breakdowns=breakdowns(folder, epochs_done),
        verdict=tuple(sentences),
    )


def virtual(folder: Path) -> list[str]:
    """Say, for a training's notes, that its ranks were virtual; [] where they were processes. folder: the run's `train`."""
    ranks = Job.load(folder / JOB).settings.virtual if (folder / JOB).exists() else 0
    note = f"One process executed {ranks} virtual ranks in turn: losses, scores and model are those of {ranks} ranks; nothing was timed."
    return [note] * bool(ranks)


def resized(epochs: Sequence[EpochRecord]) -> list[str]:
    """Say, for a training's notes, which epochs were trained on how many ranks, where that has changed (`train --elastic`); [] else."""
    known = [epoch for epoch in epochs if epoch.ranks]
    spans = [(ranks, [epoch.epoch for epoch in group]) for ranks, group in groupby(known, key=lambda epoch: epoch.ranks)]
    epochs_by_ranks = ", ".join(f"{span[0]}..{span[-1]} on {ranks} rank{'s' * (ranks != 1)}" for ranks, span in spans)
    why = "a step is over what so many ranks train at once, so that losses are not those of one number of ranks"
    return [f"Epochs {epochs_by_ranks}: {why}."] if len(spans) > 1 else []


def launched(epochs: Sequence[EpochRecord]) -> list[str]:
    """Say, by stage, how the last epoch's kernels were launched, for a training's notes; [] where no CUDA graphs were requested."""
    last = {record.stage: record.launched for record in epochs}
    return [f"launch: graph: the last epoch of stage '{stage}' was {how}." for stage, how in last.items() if how is not None]


def ended(folder: Path) -> TrainingEnd | None:
    """Read how a training came to its end; None where it has not. folder: the run's `train`."""
    return read_json(folder / ENDED, TrainingEnd, "record of a training's end") if (folder / ENDED).exists() else None


def breakdowns(folder: Path, epochs: Sequence[EpochRecord]) -> dict[str, Breakdown]:
    """Return what an epoch's time goes to (computing, copies, …) in each stage of a training, from those epochs that have a trace.

    folder: the run's `train`.
    """
    traces: dict[str, list[Trace]] = {}
    for record in epochs:
        if (path := folder / "epochs" / f"{record.epoch:06d}.parquet").exists():
            traces.setdefault(record.stage, []).append(Trace.load(path))
    return {stage: Breakdown.middle(of_stage) for stage, of_stage in traces.items()}


def early(folder: Path, epochs: Sequence[EpochRecord]) -> list[str]:
    """Return a note, in a list, that a training ended before the requested epochs since its scores got no better; [] where it did not.

    folder: the run's `train`.
    """
    end, scores_shown = ended(folder), scores_present(record.scores for record in epochs)
    if end is None or end.best is None or not scores_shown or end.epochs == (asked := Job.load(folder / JOB).repeats):
        return []
    since = end.epochs - 1 - end.best
    later = f"the epoch after epoch {end.best} has" if since == 1 else f"the {since} epochs after epoch {end.best} have"
    return [f"Training ended after {end.epochs} of {asked} epochs: {later} no better {scores_shown[0].title} (training.patience)."]


def scores(folder: Path) -> dict[str, Scores]:
    """Return the test's scores by predictor: the model first, then its rivals; {} where training has not come to its end.

    folder: the run's `train`.
    """
    if not (folder / TEST).exists():
        return {}
    model = read_json(folder / TEST, Scores, "test")
    return {model_title(folder): model, **{rival.name: dict(rival.scores) for rival in read_rivals(folder)}}


def model_title(folder: Path) -> str:
    """Return a training's model by its name for people. folder: the run's `train`."""
    return title_of(Job.load(folder / JOB).model.name)


def verdict(folder: Path) -> list[str]:
    """Return sentences on whether a training's model beats predictions without a network on the test; [] where none was made.

    folder: the run's `train`.
    """
    if not (folder / TEST).exists():
        return []
    return rival_verdict(model_title(folder), read_json(folder / TEST, Scores, "test"), read_rivals(folder))


def horizon(folder: Path) -> Horizon:
    """Read a forecaster's errors at each step ahead, by period and score; {} where none were made. folder: the run's `train`."""
    path = folder / HORIZON
    return read_json(path, dict[str, dict[str, list[float]]], "record of errors by step") if path.exists() else {}


def _shown(r: EpochRecord) -> Epoch:
    return Epoch(r.epoch, r.stage, r.strategy, r.switch_ns, r.start_ns, r.end_ns, r.loss, r.scores, max(r.rates, default=NAN))


def scaled(folder: Path, epochs: Sequence[EpochRecord]) -> list[str]:
    """Return a note, in a list, on how the learning rate was scaled by the groups of a step (REAL §7.4); [] where that changed nothing.

    folder: the run's `train`.
    """
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


def evaluation(folder: Path) -> EvaluationRecord:
    """Read what came of a stream's evaluation after training, and how long it took; an empty record where there is none. folder: the run's
    `train`."""
    path = folder / EVALUATION
    return read_json(path, EvaluationRecord, "record of an evaluation") if path.exists() else EvaluationRecord()


def validated(folder: Path) -> list[str]:
    """Return a sentence, in a list, on the validation's scores against published negatives; [] where there are none. folder: the run's
    `train`."""
    model = evaluation(folder).validation
    scores_shown = [score.describe(model[score.key]) for score in scores_present([model])]
    return [f"Validation, ranked against published negatives {period(folder)}: {', '.join(scores_shown)}."] if scores_shown else []


def tested(folder: Path) -> list[str]:
    """Return a sentence, in a list, on the scores of a training's test; [] where none was made. folder: the run's `train`."""
    if not (folder / TEST).exists():
        return []
    model = read_json(folder / TEST, Scores, "test")
    scores_shown = [score.describe(model[score.key]) for score in scores_present([model])]
    return [f"Test period, {period(folder)}: {', '.join(scores_shown) or 'there is nothing to test on'}."]


def period(folder: Path) -> str:
    """Say with which epoch's model the test was made, for the title of its table. folder: the run's `train`."""
    end = ended(folder)
    if end is None or end.best is None:
        return "after the last epoch"
    return f"with the model of epoch {end.best}, the best of 0..{end.epochs - 1}"


def idle_ranks(run: Run) -> Idle:
    """Count the ranks that train nothing in a run's training: (strategy, number of ranks) -> count, by the schedule followed last."""
    plans = sorted((run.folder / FOLDER / "plans").glob("[0-9]*/schedule.parquet"))
    schedule = Schedule.load(plans[-1] if plans else run.folder / FOLDER / "schedule.parquet")
    return {(schedule.name, schedule.ranks): schedule.idle}


def control(folder: Path) -> Control:
    """Read what the control plane of REAL's stages has done so far; an empty record where there is none. folder: the run's `train`."""
    path = folder / CONTROL
    return read_json(path, Control, "record of the control plane") if path.exists() else Control([], [])


def noted(folder: Path) -> list[str]:
    """Read the sentences about what was done before the first epoch, such as tuning. folder: the run's `train`."""
    return read_json(folder / NOTES, list[str], "notes of a training") if (folder / NOTES).exists() else []
