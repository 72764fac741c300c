"""Advise: every candidate simulated, a piece of the run each, and put in order."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.advice.candidates import Candidate, candidates, variant
from chronoscale.harness.advice.headline import headline
from chronoscale.harness.advice.judge import Task, judge, workload
from chronoscale.harness.advice.ranking import Choice, ranking
from chronoscale.harness.advice.sweep import sweep
from chronoscale.harness.advice.verdict import FILE, Verdict
from chronoscale.harness.estimate import LONG, Estimate, estimates
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.experiments import parse
from chronoscale.harness.planners import planners
from chronoscale.harness.runs import Run, as_given, write_text
from chronoscale.kept import read_json

PIECE, ASKED, FIRST = "point-", "points.json", "first.yaml"


def advise(
    experiment: Experiment,
    run: Run,
    told: Callable[[str], None] = lambda _: None,
    workers: int | None = None,
    dask: str | None = None,
) -> None:
    """A piece `point-<number>` for every candidate: its verdict; `points.json`: all of them; `first.yaml`: the first, as an experiment.

    workers: processes; by default as many as cores and memory allow, one where that is over in seconds. dask: address of a scheduler,
    instead of them.

    Raises UserError for data that cannot be planned with, and where nothing ranks, which ends the run; MachineError as `sweep`.
    """
    asked = candidates(experiment)
    run.write(ASKED, [asdict(one) for one in asked])
    tasks = {i: Task.of(experiment, one) for i, one in enumerate(asked) if not (run.folder / _piece(i)).exists()}
    if tasks:
        count, done = len(asked), len(asked) - len(tasks)
        told(f"{done} of {count} points")

        def take(number: int, verdict: Verdict) -> None:
            nonlocal done
            run.piece(_piece(number), verdict.save)
            done += 1
            told(f"{done} of {count} points, {asked[number]}")

        fitting = _workers(tasks)
        sweep(judge, tasks, take, workers or fitting, dask)
    found = choices(experiment, run)
    for text in cautions(found):
        warnings.warn(text, ChronoscaleWarning, stacklevel=2)
    if found[0].rank is None:
        run.finish()
        raise UserError(_nothing(found))
    write_text(run.folder / FIRST, as_given(_as_experiment(experiment, found[0].candidate)))


def _piece(number: int) -> str:
    return f"{PIECE}{number:05d}"


def _workers(tasks: Mapping[int, Task]) -> int:
    """As many as cores, tasks and the memory for the largest schedule allow; one where all schedules together are no long one. Estimated
    from those of the first settings. Raises UserError for data that cannot be planned with."""
    first = next(iter(tasks.values())).candidate.settings
    found = [_estimated(task) for task in tasks.values() if task.candidate.settings == first]
    if sum(one.rows for one in found) * len(tasks) < LONG * len(found):
        return 1
    room = int(psutil.virtual_memory().available / 1e9 / max(one.gigabytes for one in found))
    return max(1, min(len(os.sched_getaffinity(0)), len(tasks), room))


def _estimated(task: Task) -> Estimate:
    """What a strategy refuses has no rows."""
    experiment = parse(task.keys, "advise")
    work = workload(experiment)
    try:
        return estimates(planners(experiment), work, experiment.gpus)[0]
    except UserError:
        return Estimate(task.candidate.strategy, task.candidate.gpus, 0)


def choices(experiment: Experiment, run: Run) -> list[Choice]:
    """What the run has found so far, ranked. Raises UserError for a damaged file."""
    found = {}
    for number, folder in run.numbered(PIECE):
        if (folder / FILE).exists():
            found[number] = Verdict.load(folder)
    asked = held(run)
    return ranking(experiment, {i: (asked[i], verdict) for i, verdict in found.items() if i < len(asked)})


def held(run: Run) -> list[Candidate]:
    """All candidates that the run was to simulate. Raises UserError for a damaged file."""
    return read_json(run.folder / ASKED, list[Candidate], "list of points")


def cautions(found: list[Choice]) -> list[str]:
    """What was warned of in simulating, and what ranks do not say."""
    said = dict.fromkeys(text for one in found for text in one.verdict.warnings)
    for one in found:
        point = one.verdict.point
        if point is not None and point.gpus > point.preset_gpus:
            said[f"{point.cluster} has {point.preset_gpus} GPUs; more are as many of its machines as that takes"] = None
    if changed := [key for key in (found[0].candidate.settings if found else ()) if key.split(".")[0] in Experiment.work]:
        said[f"{', '.join(changed)}: what is learned changes with it, and no rank says how well"] = None
    return list(said)


def _nothing(found: list[Choice]) -> str:
    """Why none ranks, in a line."""
    over = [one for one in found if one.why.startswith("over")]
    near = min(over, key=lambda one: one.value) if over else found[0]
    return f"nothing to advise, none of {len(found)} points fits and keeps to the budget; {near.candidate}: {near.why}"


def _as_experiment(experiment: Experiment, chosen: Candidate) -> Experiment:
    named = Task.of(experiment, chosen).keys
    one = variant(experiment, chosen.cluster, chosen.settings)
    return one.model_copy(update={"strategies": tuple(named["strategies"]), "gpus": (chosen.gpus,)})


def records(experiment: Experiment, run: Run) -> dict[str, Any]:
    """As JSON has it: headline, objective, what to mind, and a record a point."""
    found = choices(experiment, run)
    said = {"headline": headline(found, experiment.advise.objective), "objective": experiment.advise.objective, "notes": cautions(found)}
    return {**said, "points": [record(one) for one in found]}


def record(one: Choice) -> dict[str, Any]:
    """A point as JSON has it, null for what is not known."""
    point = one.verdict.point
    known = {} if point is None else {"peak_bytes": point.peak_bytes, "idle_ranks": point.idle_ranks, "prepare_s": point.prepare_s}
    simulated = point is not None
    return {
        "rank": one.rank,
        **asdict(one.candidate),
        "epoch_s": one.verdict.epoch_s if simulated else None,
        "hours": one.hours if simulated else None,
        "gpu_hours": one.gpu_hours if simulated else None,
        "cost": one.cost,
        **known,
        "iterations": one.verdict.iterations if simulated else None,
        "behind": one.behind if one.rank else None,
        "first_ahead_in": one.won,
        "told_apart": one.apart,
        "front": one.front,
        "reason": one.reason,
        "not_ranked": one.why,
        "critical_path": [asdict(blame) for blame in one.verdict.blames],
    }


def write(run: Run, found: Mapping[str, Any]) -> Path:
    """`advice.json` in the run's folder."""
    path = run.folder / "advice.json"
    write_text(path, json.dumps(found, indent=1))
    return path
