"""Advice: every candidate simulated, a piece of the run each, and put in order."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict

import psutil

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.advice.candidate import Candidate
from chronoscale.harness.advice.candidates import candidates, variant
from chronoscale.harness.advice.judge import Task, judge, workload
from chronoscale.harness.advice.outcome import ASKED, cautions, choices, piece
from chronoscale.harness.advice.ranking import Choice
from chronoscale.harness.advice.verdict import Verdict
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import as_yaml, parse
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.estimate import LONG, Estimate, estimates
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.sweep.sweep import sweep

FIRST = "first.yaml"


def advise(
    experiment: Experiment,
    run: Run,
    on_progress: Callable[[str], None] = lambda _: None,
    workers: int | None = None,
    dask: str | None = None,
) -> list[Choice]:
    """Simulate every candidate of `chronoscale advise`, a piece `point-<number>` of the run each, and write the first one's experiment.

    Writes `points.json` (all candidates) and `first.yaml`, and returns all as ranked. workers: processes; None: as many as cores and memory
    allow, one where that is over in seconds. dask: address of a scheduler whose workers simulate, instead. Raises
    UserError for data that cannot be planned with, and where nothing ranks, which ends the run; and as `sweep`.
    """
    if experiment.failures is not None:
        raise UserError("failures: trainings that nothing interrupts are ranked; leave the key out here, and `simulate` the first with it")
    points = candidates(experiment)
    run.write(ASKED, [asdict(point) for point in points])
    tasks = {i: Task.of(experiment, point) for i, point in enumerate(points) if not (run.folder / piece(i)).exists()}
    if tasks:
        count, done = len(points), len(points) - len(tasks)
        on_progress(f"{done} of {count} points")

        def take(number: int, verdict: Verdict) -> None:
            nonlocal done
            run.piece(piece(number), verdict.save)
            done += 1
            on_progress(f"{done} of {count} points, {points[number]}")

        fitting = _workers(tasks)
        tasks = {number: task.cut(run) if dask is None else task.read(run) for number, task in tasks.items()}
        sent = {number: task for number, task in tasks.items() if task.inputs is not None}
        sweep(judge, sent, take, dask=dask)
        sweep(judge, {number: task for number, task in tasks.items() if number not in sent}, take, workers or fitting)
    ranked = choices(run, experiment.advise, experiment.epochs)
    for text in cautions(ranked):
        warnings.warn(text, ChronoscaleWarning, stacklevel=2)
    if ranked[0].rank is None:
        run.finish()
        raise UserError(_nothing(ranked))
    write_text(run.folder / FIRST, as_yaml(_as_experiment(experiment, ranked[0].candidate)))
    return ranked


def _workers(tasks: Mapping[int, Task]) -> int:
    """Return how many processes to judge candidates in: as many as cores, tasks and the memory for the largest schedule allow; one where
    all schedules together are short.

    Schedules are estimated from those of the first settings. Raises UserError for data that cannot be planned with.
    """
    first = next(iter(tasks.values())).candidate.settings
    estimated = [_estimated(task) for task in tasks.values() if task.candidate.settings == first]
    if sum(estimate.rows for estimate in estimated) * len(tasks) < LONG * len(estimated):
        return 1
    room = int(psutil.virtual_memory().available / 1e9 / max(estimate.gigabytes for estimate in estimated))
    return max(1, min(len(os.sched_getaffinity(0)), len(tasks), room))


def _estimated(task: Task) -> Estimate:
    """Rows of a task's schedule; none for what a strategy refuses."""
    experiment = parse(task.keys, "advise")
    work = workload(experiment)
    try:
        return estimates(planners(experiment), work, experiment.gpus)[0]
    except UserError:
        return Estimate(task.candidate.strategy, task.candidate.gpus, 0)


def _nothing(choices: list[Choice]) -> str:
    """Say why no candidate ranks."""
    over = [choice for choice in choices if choice.why.startswith("over")]
    nearest = min(over, key=lambda choice: choice.value) if over else choices[0]
    return f"nothing to advise, none of {len(choices)} points fits and keeps to the budget; {nearest.candidate}: {nearest.why}"


def _as_experiment(experiment: Experiment, chosen: Candidate) -> Experiment:
    keys = Task.of(experiment, chosen).keys
    varied = variant(experiment, chosen.cluster, chosen.settings)
    return varied.model_copy(update={"strategies": tuple(keys["strategies"]), "gpus": (chosen.gpus,)})
