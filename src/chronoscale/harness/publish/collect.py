"""Collection of finished runs as one report, with a line for whatever is not in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.advice import outcome
from chronoscale.harness.advice.shown import report_advice
from chronoscale.harness.compare.figure import report_comparison
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.publish import inventory, settings
from chronoscale.harness.runs import passes, points
from chronoscale.harness.runs.assumed import assumed_of
from chronoscale.harness.runs.idle import idle_sentences
from chronoscale.harness.runs.passes import SCHEDULE, passes_of
from chronoscale.harness.runs.points import SimulatedPoint
from chronoscale.harness.runs.profile_record import PROFILED, ProfileRecord
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment
from chronoscale.harness.runs.training_record import FOLDER, result
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.reports.advice import Advice
from chronoscale.reports.attachment import Attachment
from chronoscale.reports.report import Report
from chronoscale.reports.strategy_result import Prediction, StrategyResult, describe_bad_loss
from chronoscale.reports.training_run import TrainingRun
from chronoscale.strategies.evaluation.fidelity import coverage, fidelity
from chronoscale.strategies.plugins import title_of
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace

NAN = float("nan")


@dataclass(slots=True)
class Collection:
    """Results of runs gathered so far for `chronoscale report`, and sentences about what is missing or doubtful."""

    results: list[StrategyResult] = field(default_factory=list)
    trainings: list[TrainingRun] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, run: Run, experiment: Experiment, name: str) -> list[str]:
        """Add what a run's folder holds to a report in the making, and return the sentences that belong to it. name: the run's name in the
        report.
        """
        notes, subject = _doubts(run, experiment), f"{experiment.subject} ({name})"
        results = [replace(result, run=name) for result in (*_executed(run, experiment, notes), *_simulated(run, experiment, notes))]
        self.results += results
        if (run.folder / FOLDER).exists() and (training := result(run, max(experiment.ranks))).epochs:
            setting = settings.executed(run, experiment)
            self.trainings.append(replace(training, name=name, setting=setting, stopped=run.not_finite))
            notes += training.notes
        elif run.status.command == "advise" and (run.folder / outcome.ASKED).exists():
            ranked, number = outcome.choices(run, experiment.advise, experiment.epochs), len(self.advice) + 1
            if not ranked:
                return notes
            notes += [f"{text}." for text in outcome.cautions(ranked)]
            self.advice.append(report_advice(ranked, experiment.advise.objective, f"advice{f'-{number}' * (number > 1)}", subject))
        elif run.status.command == "compare" and run.complete:
            number = sum(advice.name.startswith("compare") for advice in self.advice) + 1
            self.advice.append(report_comparison(run, f"compare{f'-{number}' * (number > 1)}", subject))
        elif not results:
            notes.append(f"a run of `chronoscale {run.status.command}`, it holds no result that a report shows.")
        return notes + [f"{line}." for line in idle_sentences({**passes.idle_ranks(run), **points.idle_ranks(run)})]


def collect(given: Sequence[Run]) -> Report:
    """Gather finished runs into one report, which `chronoscale report` and the terminal's tables show.

    Runs of different settings get sections of their own; an incomplete run, or one given twice, a sentence. Raises UserError for a folder
    that is no run, and when nothing is finished in any.
    """
    times = Counter(run.folder.resolve() for run in given)
    runs = list({run.folder.resolve(): run for run in given}.values())
    names = _names(runs)
    experiments = {run.folder: load_experiment(run) for run in runs}
    collection = Collection()
    notes = collection.notes
    notes += [f"{run.folder.name} was given {n} times, and is shown once." for run in runs if (n := times[run.folder.resolve()]) > 1]
    for run in runs:
        if not run.complete:
            notes.append(f"{run.folder.name} is incomplete: only its finished parts are shown; the same command takes it up again.")
        name = names[run.folder]
        lines = collection.add(run, experiments[run.folder], name)
        notes += [line if len(runs) == 1 or line.startswith(name) else f"{name}: {line}" for line in lines]
    results = collection.results
    if not results and not collection.trainings and not collection.advice:
        raise UserError(f"{', '.join(str(run.folder) for run in runs)}: nothing finished to report{': ' * bool(notes)}{' '.join(notes)}")
    attachments = _attachments(runs, experiments)
    notes += [sentence for attachment in attachments for sentence in attachment.sentences]
    simulated = [*(advice for advice in collection.advice if advice.kind == "simulated")]
    if simulated or any(result.kind == "simulated" and result.ranks > 1 for result in results):
        notes.append("Simulated times of several GPUs are a model's: no multi-GPU machine has confirmed them here.")
    labels = dict.fromkeys(experiment.dataset.label for experiment in experiments.values())
    models = dict.fromkeys(title_of(experiment.model.name) for experiment in experiments.values())
    return Report(
        title=f"{', '.join(models)} on {', '.join(labels)}",
        subtitle=", ".join(names.values()),
        runs=tuple(results),
        staged=tuple(collection.trainings),
        advice=tuple(collection.advice),
        notes=tuple(dict.fromkeys(notes)),
        environments={names[run.folder]: run.environment for run in runs},
        attachments=tuple(attachments),
    )


def _attachments(runs: Sequence[Run], experiments: Mapping[Path, Experiment]) -> list[Attachment]:
    """Return the files of results that other benchmarks take, at most one a family. experiments: by the run's folder."""
    of_family: dict[str, list[tuple[Experiment, Run]]] = {}
    for run in runs:
        of_family.setdefault(experiments[run.folder].family, []).append((experiments[run.folder], run))
    files = (workflow_of(family).attachment(pairs) for family, pairs in of_family.items())
    return [file for file in files if file is not None]


def _names(runs: Sequence[Run]) -> dict[Path, str]:
    """Return the names of runs in a report: the folder's name, or its path where two have one name."""
    counts = Counter(run.folder.name for run in runs)
    return {run.folder: run.folder.name if counts[run.folder.name] == 1 else str(run.folder) for run in runs}


def _doubts(run: Run, experiment: Experiment) -> list[str]:
    """List in sentences which results of a run are missing, and the reasons to doubt the others."""
    notes = inventory.missing(run, experiment) + workflow_of(experiment.family).notes(experiment, run)
    profile = run.folder / "profile"
    if (profile / PROFILED).exists() and (record := ProfileRecord.load_from(profile)).run != run.folder.name:
        notes.append(f"{record.sentence}.")
    notes += [f"{line[0].upper()}{line[1:]}." for line in passes.noise_sentences(run).values()]
    notes += [f"{line[0].upper()}{line[1:]}." for line in passes.clock_sentences(run)]
    notes += [f"{line}." for line in passes.planning_sentences(run)]
    if run.not_finite:
        notes.append(f"stopped at a number that is not finite: {run.not_finite}.")
    return notes


def _executed(run: Run, experiment: Experiment, notes: list[str]) -> Iterator[StrategyResult]:
    setting = settings.executed(run, experiment)
    for ranks, folder in run.numbered("ranks-"):
        for name in inventory.strategies(run, experiment):
            if inventory.executed(run, experiment, ranks, name):
                continue
            schedule, repeats = Schedule.load(folder / f"{name}{SCHEDULE}"), passes_of(run, ranks, name)
            shown = schedule if ranks == max(experiment.ranks) else None
            before = folder / f"{name}-prepare-r0.parquet"
            losses = np.concatenate([each.losses for each in repeats]).tolist()
            if schedule.note:
                notes.append(f"{name} on {ranks} rank{'s' * (ranks > 1)}: {schedule.note}.")
            yield replace(
                StrategyResult.of(setting, [each.trace for each in repeats], shown),
                gap=schedule.gap,
                prepare_s=Trace.load(before).span_ns / 1e9 if before.exists() else NAN,
                host_bytes=schedule.host,
                scores=repeats[-1].scores,
                losses=tuple(losses),
                failed=describe_bad_loss(losses),
                idle_ranks=schedule.idle,
                steps=schedule.iterations,
                targets=schedule.targets,
                mathematics=schedule.mathematics,
                prediction=_prediction(run, schedule, name, [each.trace for each in repeats]),
            )


def _prediction(run: Run, schedule: Schedule, name: str, measured: Sequence[Trace]) -> Prediction | None:
    if inventory.replayed(run, schedule.ranks, name):
        return None
    predicted = Trace.load(run.folder / f"replay-{schedule.ranks}" / f"{name}.parquet")
    expected = passes.predicted_epoch_ns(run, schedule.ranks, name)
    joined, costs = fidelity(predicted, measured, schedule.iteration, expected), predicted.device.rpartition("costs: ")[2]
    return Prediction(joined, costs, ", ".join(predicted.sources), coverage(predicted, measured))


def _simulated(run: Run, experiment: Experiment, notes: list[str]) -> Iterator[StrategyResult]:
    notes += [f"{line[0].upper()}{line[1:]}." for line in points.engine_sentences(run)]
    notes += points.refused_sentences(run)
    notes += [f"{line}." for line in points.endless_sentences(run)]
    notes += [f"{line}." for line in points.left_out_sentences(run)]
    assumed = assumed_of(run)
    for gpus, name in product(experiment.gpus, inventory.strategies(run, experiment)):
        folder = run.folder / f"sim-{gpus:05d}-{name}"
        if inventory.simulated(run, gpus, name):
            continue
        point = SimulatedPoint.load(folder)
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
            gap=NAN if point.gap is None else point.gap,
            prepare_s=NAN if point.prepare_s is None else point.prepare_s,
            host_bytes=point.host_bytes,
            failure_summary=point.endured,
            effects=assumed.effects.get(name, ()) if assumed and assumed.gpus == gpus else (),
            conclusions=tuple(each for each in assumed.conclusions if each.faster == name) if assumed and assumed.gpus == gpus else (),
            idle_ranks=point.idle_ranks,
            steps=point.steps,
            targets=point.targets,
            mathematics=point.mathematics,
            peak_bytes=point.peak_bytes,
            few_samples=point.few,
            cluster_gpus=point.preset_gpus,
            links=point.links,
        )
