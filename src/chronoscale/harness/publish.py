"""Publish: finished runs as reports, tables and timelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness import execution, simulation
from chronoscale.harness.execution import passes
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.families import family_of
from chronoscale.harness.idle import told
from chronoscale.harness.jobs import schedules
from chronoscale.harness.point import Point
from chronoscale.harness.runs import Run, write_text
from chronoscale.harness.simulation import refused
from chronoscale.harness.started import of_run, work_of
from chronoscale.harness.trained import FOLDER, result
from chronoscale.kept import read_text
from chronoscale.reports.page import write
from chronoscale.reports.report import Measured, Report
from chronoscale.reports.tables import comparison, fidelity
from chronoscale.strategies.metrics import fidelity as joined
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace

COLUMNS = (
    "strategy", "ranks", "epoch_s", "spread_s", "prepare_s", "speedup", "parallel_efficiency", "mae", "gap", "imbalance", "utilisation",
    "learning_rate", "sources",
)  # fmt: skip


def collect(found: Sequence[Run]) -> Report:
    """A report over runs; what is incomplete says so. Where two runs measured the same point, the later one stands.

    Raises UserError for a folder that is no run, when nothing is finished in any, or when runs of one kind trained different things:
    their figures do not compare.
    """
    points: dict[tuple[str, str, int, str], Measured] = {}
    tables: dict[tuple[str, int], pd.DataFrame] = {}
    losses: dict[str, list[float]] = {}
    notes: list[str] = []
    environment: dict[str, str] = {}
    work: dict[str, Run] = {}
    experiments = {run.folder: of_run(run) for run in found}
    for run in found:
        if not run.complete:
            notes.append(f"{run.folder.name} is incomplete: only its finished parts are shown; the same command takes it up again.")
        if run.spoilt:
            notes.append(f"{run.folder.name} stopped at a number that is not finite: {run.spoilt}.")
        environment |= run.environment
        experiment = experiments[run.folder]
        notes += family_of(experiment).notes(experiment, run)
        for measured in [*_executed(run, experiment, losses, notes), *_simulated(run, experiment, notes)]:
            other = work.setdefault(measured.kind, run)
            if work_of(other, experiments[other.folder]) != work_of(run, experiment):
                raise UserError(f"{other.folder} and {run.folder} trained different things, which do not compare; give each its own report")
            points[measured.kind, measured.strategy, measured.ranks, measured.summary.device] = measured
        tables |= _fidelity(run)
        notes += [f"{run.folder.name}: {line}." for line in told({**execution.idle(run), **simulation.idle(run)})]
    staged = [result(run, max(experiments[run.folder].ranks)) for run in found if (run.folder / FOLDER).exists()]
    staged = [run for run in staged if run.epochs]
    notes += [note for run in staged for note in run.notes]
    if not points and not staged:
        raise UserError(f"{', '.join(str(run.folder) for run in found)}: nothing finished to report")
    if any(measured.kind == "simulated" and measured.ranks > 1 for measured in points.values()):
        notes.append("Simulated times of several GPUs are a model's: no multi-GPU machine has confirmed them here.")
    names = dict.fromkeys(one.dataset.label for one in experiments.values())
    models = dict.fromkeys(one.model.name for one in experiments.values())
    return Report(
        title=f"{', '.join(models)} on {', '.join(names)}",
        subtitle=", ".join(run.folder.name for run in found),
        runs=tuple(points.values()),
        fidelity=tables,
        losses=losses,
        staged=tuple(staged),
        notes=tuple(dict.fromkeys(notes)),
        environment=environment,
    )


def _executed(run: Run, experiment: Experiment, losses: dict[str, list[float]], notes: list[str]) -> list[Measured]:
    found = []
    for ranks, folder in run.numbered("ranks-"):
        for name, schedule in schedules(folder).items():
            done = passes(run, ranks, name)
            shown = schedule if ranks == max(experiment.ranks) else None
            measured = Measured.of("executed", [one.trace for one in done], shown)
            before = folder / f"{name}-prepare-r0.parquet"
            prepare_s = Trace.load(before).span_ns / 1e9 if before.exists() else measured.prepare_s
            mae, rmse, mape = done[-1].errors.tolist()
            measured = replace(measured, gap=schedule.gap, prepare_s=prepare_s, host_bytes=schedule.host)
            found.append(replace(measured, mae=mae, rmse=rmse, mape=mape))
            if schedule.note:
                notes.append(f"{name} on {ranks} rank{'s' * (ranks > 1)}: {schedule.note}.")
            losses[f"{name} on {ranks} rank{'s' * (ranks > 1)}"] = np.concatenate([one.losses for one in done]).tolist()
    return found


def _simulated(run: Run, experiment: Experiment, notes: list[str]) -> list[Measured]:
    found = []
    notes += refused(run)
    for folder in run.pieces("sim-"):
        point = Point.load(folder)
        if point.out_of_memory:
            continue
        if point.gpus > point.preset_gpus:
            notes.append(f"{point.cluster} has {point.preset_gpus} GPUs; {point.gpus} are as many of its machines as that takes.")
        drawn = point.gpus == min((g for g in experiment.gpus if g > 1), default=1)  # one timeline a strategy is enough to look at
        shown = Schedule.load(folder / "schedule.parquet") if drawn else None
        measured = Measured.of("simulated", [Trace.load(folder / "trace.parquet")], shown)
        prepare_s = measured.prepare_s if point.prepare_s is None else point.prepare_s
        gap = measured.gap if point.gap is None else point.gap
        found.append(replace(measured, prepare_s=prepare_s, gap=gap, host_bytes=point.host_bytes))
        if point.note:
            notes.append(f"{point.strategy} on {point.gpus} GPUs: {point.note}.")
    return found


def _fidelity(run: Run) -> dict[tuple[str, int], pd.DataFrame]:
    found = {}
    for ranks, folder in run.numbered("replay-"):
        for path in sorted(folder.glob("*.parquet")):
            measured = [one.trace for one in passes(run, ranks, path.stem)]
            found[path.stem, ranks] = joined(Trace.load(path), measured)
    return found


def compared(run: Run) -> pd.DataFrame:
    """The comparison of one run, for the terminal."""
    table, experiment = comparison(collect([run])), of_run(run)
    keys = [(str(name), int(ranks)) for name, ranks in zip(table["strategy"], table["ranks"], strict=True)]
    rate = family_of(experiment).rate
    rates = {(name, ranks): rate(experiment, plan) for ranks, folder in run.numbered("ranks-") for name, plan in schedules(folder).items()}
    if rates:
        table["learning_rate"] = [rates[key] for key in keys]
    found = {**execution.idle(run), **simulation.idle(run)}
    return table[[name for name in COLUMNS if name in table]].assign(idle_ranks=[found.get(key, 0) for key in keys])


def fidelity_table(run: Run) -> pd.DataFrame:
    """Predicted against measured of one run, per operation and in total."""
    return fidelity(collect([run]))


def page(found: Sequence[Run], out: Path) -> Path:
    """The report as a folder; returns its index.html."""
    return write(collect(found), out)


def chrome(run: Run, out: Path) -> list[Path]:
    """Chrome-trace JSON of the first repeat of everything executed, of everything simulated, and of both planes of a training run."""
    run.status  # noqa: B018 (refuses what is no run)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for _, folder in run.numbered("ranks-"):
        for name, schedule in schedules(folder).items():
            written.append(_export(Trace.load(folder / f"{name}-r0.parquet"), schedule, out / f"{name}-{folder.name}.json"))
    for folder in run.pieces("sim-"):
        trace, schedule = Trace.load(folder / "trace.parquet"), Schedule.load(folder / "schedule.parquet")
        written.append(_export(trace, schedule, out / f"{folder.name}.json"))
    timeline = run.folder / FOLDER / "timeline.json"
    if timeline.exists():
        write_text(out / "stages.json", read_text(timeline, "timeline"))
        written.append(out / "stages.json")
    if not written:
        raise UserError(f"{run.folder}: no traces to export")
    return written


def _export(trace: Trace, schedule: Schedule, path: Path) -> Path:
    write_text(path, trace.chrome(schedule))
    return path
