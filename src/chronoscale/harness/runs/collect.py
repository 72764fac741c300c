"""Collected: finished runs as one report, with a line for whatever is not in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.advice import outcome
from chronoscale.harness.advice.shown import advised
from chronoscale.harness.execute import execution
from chronoscale.harness.execute.calibration import PROBED, Profiled
from chronoscale.harness.execute.execution import passes
from chronoscale.harness.idle import told
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.practices import practice_of
from chronoscale.harness.runs import inventory, settings
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import of_run
from chronoscale.harness.runs.training_record import FOLDER, result
from chronoscale.harness.simulate import simulation
from chronoscale.harness.simulate.point import Point
from chronoscale.harness.simulate.simulation import refused
from chronoscale.reports.advice import Advice
from chronoscale.reports.report import Report
from chronoscale.reports.strategy_result import Prediction, StrategyResult, describe_bad_loss
from chronoscale.reports.training_run import TrainingRun
from chronoscale.strategies.evaluation.fidelity import coverage, fidelity
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace


def collect(given: Sequence[Run]) -> Report:
    """A report over runs. What does not compare gets its own section; what is incomplete, missing, or given twice, a line.

    Raises UserError for a folder that is no run, and when nothing is finished in any.
    """
    times = Counter(run.folder.resolve() for run in given)
    found = list({run.folder.resolve(): run for run in given}.values())
    notes = [f"{run.folder.name} was given {n} times, and is shown once." for run in found if (n := times[run.folder.resolve()]) > 1]
    names = _names(found)
    experiments = {run.folder: of_run(run) for run in found}
    results: list[StrategyResult] = []
    staged: list[TrainingRun] = []
    advice: list[Advice] = []
    for run in found:
        experiment = experiments[run.folder]
        if not run.complete:
            notes.append(f"{run.folder.name} is incomplete: only its finished parts are shown; the same command takes it up again.")
        said = inventory.missing(run, experiment) + practice_of(experiment).notes(experiment, run)
        if (run.folder / "profile" / PROBED).exists() and (profiled := Profiled.read(run.folder / "profile")).run != run.folder.name:
            said.append(f"{profiled.told()}.")
        said += [f"{line[0].upper()}{line[1:]}." for line in execution.noisy(run).values()]
        if run.spoilt:
            said.append(f"stopped at a number that is not finite: {run.spoilt}.")
        mine = [replace(one, run=names[run.folder]) for one in (*_executed(run, experiment, said), *_simulated(run, experiment, said))]
        if (run.folder / FOLDER).exists() and (trained := result(run, max(experiment.ranks))).epochs:
            setting = settings.executed(run, experiment)
            staged.append(replace(trained, name=names[run.folder], setting=setting, stopped=run.spoilt))
            said += trained.notes
        elif run.status.command == "advise" and (run.folder / outcome.ASKED).exists():
            said += [f"{text}." for text in outcome.cautions(outcome.choices(experiment, run))]
            advice.append(advised(run, experiment, f"advice{f'-{len(advice) + 1}' * bool(advice)}", names[run.folder]))
        elif not mine:
            said.append(f"a run of `chronoscale {run.status.command}`, it holds no result that a report shows.")
        said += [f"{line}." for line in told({**execution.idle(run), **simulation.idle(run)})]
        notes += [one if len(found) == 1 or one.startswith(names[run.folder]) else f"{names[run.folder]}: {one}" for one in said]
        results += mine
    if not results and not staged and not advice:
        raise UserError(f"{', '.join(str(run.folder) for run in found)}: nothing finished to report{': ' * bool(notes)}{' '.join(notes)}")
    if advice or any(measured.kind == "simulated" and measured.ranks > 1 for measured in results):
        notes.append("Simulated times of several GPUs are a model's: no multi-GPU machine has confirmed them here.")
    labels = dict.fromkeys(one.dataset.label for one in experiments.values())
    models = dict.fromkeys(one.model.name for one in experiments.values())
    return Report(
        title=f"{', '.join(models)} on {', '.join(labels)}",
        subtitle=", ".join(names.values()),
        runs=tuple(results),
        staged=tuple(staged),
        advice=tuple(advice),
        notes=tuple(dict.fromkeys(notes)),
        environments={names[run.folder]: run.environment for run in found},
    )


def _names(found: Sequence[Run]) -> dict[Path, str]:
    """What runs are called in a report: the folder's name, or its path where two have one name."""
    counts = Counter(run.folder.name for run in found)
    return {run.folder: run.folder.name if counts[run.folder.name] == 1 else str(run.folder) for run in found}


def _executed(run: Run, experiment: Experiment, notes: list[str]) -> Iterator[StrategyResult]:
    setting = settings.executed(run, experiment)
    for ranks, folder in run.numbered("ranks-"):
        for name in inventory.strategies(run, experiment):
            if inventory.executed(run, experiment, ranks, name):
                continue
            schedule, done = Schedule.load(folder / f"{name}{inventory.SCHEDULE}"), passes(run, ranks, name)
            shown = schedule if ranks == max(experiment.ranks) else None
            before = folder / f"{name}-prepare-r0.parquet"
            losses = np.concatenate([one.losses for one in done]).tolist()
            if schedule.note:
                notes.append(f"{name} on {ranks} rank{'s' * (ranks > 1)}: {schedule.note}.")
            yield replace(
                StrategyResult.of(setting, [one.trace for one in done], shown),
                gap=schedule.gap,
                prepare_s=Trace.load(before).span_ns / 1e9 if before.exists() else float("nan"),
                host_bytes=schedule.host,
                scores=done[-1].scores,
                losses=tuple(losses),
                failed=describe_bad_loss(losses),
                idle_ranks=schedule.idle,
                prediction=_prediction(run, schedule, name, [one.trace for one in done]),
            )


def _prediction(run: Run, schedule: Schedule, name: str, measured: Sequence[Trace]) -> Prediction | None:
    if inventory.replayed(run, schedule.ranks, name):
        return None
    predicted = Trace.load(run.folder / f"replay-{schedule.ranks}" / f"{name}.parquet")
    expected = execution.expected_ns(run, schedule.ranks, name)
    joined, costs = fidelity(predicted, measured, schedule.iteration, expected), predicted.device.rpartition("costs: ")[2]
    return Prediction(joined, costs, ", ".join(predicted.sources), coverage(predicted, measured))


def _simulated(run: Run, experiment: Experiment, notes: list[str]) -> Iterator[StrategyResult]:
    notes += refused(run)
    for gpus, name in product(experiment.gpus, inventory.strategies(run, experiment)):
        folder = run.folder / f"sim-{gpus:05d}-{name}"
        if inventory.simulated(run, gpus, name):
            continue
        point = Point.load(folder)
        if point.out_of_memory:
            continue
        if gpus > point.preset_gpus:
            notes.append(f"{point.cluster} has {point.preset_gpus} GPUs; {gpus} are as many of its machines as that takes.")
        drawn = gpus == min((g for g in experiment.gpus if g > 1), default=1)  # one timeline a strategy is enough to look at
        if point.summary is None:
            trace, shown = Trace.load(folder / "trace.parquet"), Schedule.load(folder / "schedule.parquet") if drawn else None
            measured = StrategyResult.of(settings.simulated(run, experiment, point, trace.device), [trace], shown).with_draws(point.draws_s)
        else:
            setting = settings.simulated(run, experiment, point, point.summary.device)
            measured = StrategyResult(setting, point.summary, pd.Series(point.op_seconds, dtype=float))
        if point.note:
            notes.append(f"{name} on {gpus} GPUs: {point.note}.")
        yield replace(
            measured,
            gap=float("nan") if point.gap is None else point.gap,
            prepare_s=float("nan") if point.prepare_s is None else point.prepare_s,
            host_bytes=point.host_bytes,
            failure_summary=point.endured,
            effects=point.effects,
            idle_ranks=point.idle_ranks,
            few_samples=point.few,
            cluster_gpus=point.preset_gpus,
            links=point.links,
        )
