"""Calibration: probes chosen, timed, fitted; before anything is planned, or in turn with the strategies that their costs will replay."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.execute.budget import Budget, work_ns
from chronoscale.harness.execute.jobs import item, job, load_passes
from chronoscale.harness.execute.machine import seat, sharing, this_device
from chronoscale.harness.execute.noise import PASSES, Watch
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.planners import planned, planners
from chronoscale.harness.practice import Candidate
from chronoscale.harness.practices import practice_of
from chronoscale.harness.runs.run_folder import Run
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.environment import device_name, fingerprint
from chronoscale.real_exec.measurement.fit import enough, fit, tabulate
from chronoscale.real_exec.measurement.jitter import sway
from chronoscale.real_exec.measurement.kernels import launch_ns
from chronoscale.real_exec.measurement.messages import all_reduces
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.ranks.pinning import share
from chronoscale.records import read_json
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costing.request import CostRequests
from chronoscale.strategies.costs import CostModel, DatasheetCosts, FittedCosts
from chronoscale.strategies.schedule import Schedule

RATE = 1e-3  # of probes, which are timed: a rate that is too large for the experiment is no reason to stop here
PROBED = "profiled.json"  # of a profile: a Profiled
ENGINE = Link(1e9, 1e-3)  # a data engine for costs that are asked for memory, and for shares of an epoch, alone
Told = Callable[[str], None]
Timed = tuple[Schedule, list[Pass]]


@dataclass(frozen=True, slots=True)
class Profiled:
    """For which strategies a profile knows all that they will ask; in which run it was made, when (ISO 8601), and the machine's load in the
    minute before, processes that run or wait."""

    strategies: list[str]
    run: str
    at: str
    load: float

    @classmethod
    def read(cls, folder: Path) -> Profiled:
        """Of a profile's folder. Raises UserError for a file that is missing or damaged."""
        return read_json(folder / PROBED, cls, "record of a profile")

    def told(self) -> str:
        """In words."""
        when = datetime.fromisoformat(self.at)
        return (
            f"costs are those that {self.run} fitted {_ago(datetime.now(UTC) - when)} ({when:%Y-%m-%d %H:%M} UTC), when {self.load:.1f} "
            f"processes were busy on {len(os.sched_getaffinity(0))} cores; `chronoscale profile` measures anew"
        )


def _ago(age: timedelta) -> str:
    for seconds, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if (count := int(age.total_seconds() // seconds)) > 0:
            return f"{count} {unit}{'s' * (count > 1)} ago"
    return "less than a minute ago"


def sheet(experiment: Experiment) -> DatasheetCosts:
    """What is known of any machine: enough for memory, and to tell how long one schedule takes beside another."""
    return DatasheetCosts(presets.cluster(experiment.cluster).device, engine=ENGINE)


def measure(experiment: Experiment, run: Run, folder: Path, told: Told = lambda _: None) -> None:
    """Time probes on this machine and fit: profile.parquet (a row a task), and costs-<ranks>.json for every rank count, in `folder`;
    those of windows of blocks with a predictor. `told`: how far it has come."""
    seat(experiment, experiment.ranks)
    begun = datetime.now(UTC).isoformat(timespec="seconds"), os.getloadavg()[0]
    work = folder / "work"
    work.mkdir()
    probes, tables, watch, timed = practice_of(experiment).probes(experiment, run, work), [], Watch(), list[list[Pass]]()
    passes = min(experiment.repeats, PASSES)
    for ranks in sorted(set(experiment.ranks)):
        told(f"choosing what to time on {ranks} ranks")
        asked, epoch_ns, anything = _asked(experiment, run, ranks)
        found = chosen(experiment, probes.of(ranks), ranks, asked, epoch_ns, experiment.warming + passes, anything)
        items = probing(experiment, found, ranks, work)
        probe_job = replace(job(experiment, f"probes-{ranks}", [one for one, _ in items], work), repeats=passes)
        launch(probe_job, ranks, work, told)
        measured = [(schedule, load_passes(work, one.label)) for one, schedule in items]
        timed += [one for _, one in measured]
        table, costs = fitted_to(experiment, measured)
        tables.append(table)
        costs.save(folder / f"costs-{ranks}.json")
    pd.concat(tables, ignore_index=True).to_parquet(folder / "profile.parquet")
    noise = watch.noise(timed, share(max(experiment.ranks), experiment.threads))
    noise.save(folder)
    if noise.told:
        warnings.warn(f"profile: {noise.told}", ChronoscaleWarning, stacklevel=2)
    (folder / PROBED).write_text(json.dumps(asdict(Profiled(sorted(planners(experiment)), run.folder.name, *begun))))
    shutil.rmtree(work)


def _asked(experiment: Experiment, run: Run, ranks: int) -> tuple[CostRequests, int, bool]:
    """What the experiment's plans ask of costs, and their rows would, as a datasheet makes them; the longest epoch's work by it, ns; and
    whether that is not all: what cannot be executed has no operations of its own here."""
    family, rough = practice_of(experiment), sheet(experiment)
    data, asked, longest, anything = family.store(experiment, run), CostRequests(rough), 0, False
    work = family.stored(experiment, data)
    for planner in planners(experiment).values():
        if not planner.executes:
            anything = True
            continue
        parts = family.divided(experiment, run, data, work, ranks, planner)[1]
        schedule = planned(planner, parts, ranks, asked, sketched=True)
        asked.note(schedule)
        longest = max(longest, work_ns(schedule, rough))
    return asked, longest, anything


def chosen(
    experiment: Experiment,
    found: Iterable[Candidate],
    ranks: int,
    asked: CostRequests,
    epoch_ns: float,
    passes: int,
    anything: bool = False,
) -> list[Candidate]:
    """Probes that bring what is asked for, and more while all their `passes` together take no more than `profile_epochs` epochs. Warns
    where what is needed takes more. Without an epoch to go by, all of them."""
    allowed = experiment.profile_epochs * epoch_ns / passes if epoch_ns else float("inf")
    budget = Budget(asked.ranges, allowed, sheet(experiment), anything)
    taken = budget.within(found)
    if (epochs := budget.spent_ns * passes / max(epoch_ns, 1)) > experiment.profile_epochs and epoch_ns:
        whose = f"{ranks} rank{'s have' if ranks > 1 else ' has'}"
        said = f"profile: {passes} passes over what {whose} to know take about {epochs:.0f} epochs, more than profile_epochs: "
        said += f"{experiment.profile_epochs:g}; fewer repeats or strategies take less"
        warnings.warn(said, ChronoscaleWarning, stacklevel=2)
    return taken


def probing(experiment: Experiment, found: Sequence[Candidate], ranks: int, folder: Path) -> list[tuple[Item, Schedule]]:
    """Items of a job, their files written, and for several ranks all-reduces of many sizes beside them."""
    items = [(replace(one.item(), learning_rate=RATE, probes=True), one.schedule) for one in found]
    if ranks > 1:
        alone = all_reduces(ranks)
        items.append((replace(item(folder, alone.name, alone, "", experiment.hyper), probes=True), alone))
    return items


def fitted_to(experiment: Experiment, measured: Sequence[Timed]) -> tuple[pd.DataFrame, FittedCosts]:
    """The tasks of probes as a table, and the costs fitted to it."""
    device, table = this_device(experiment), tabulate(measured)
    here = fingerprint(device) | sharing(experiment)
    costs = fit(enough(table), device_name(device), here, experiment.seed, launch_ns(device), sway(measured))
    if (table["schedule"] == "blocks").any():
        from chronoscale.real_exec.measurement.predictor import learn  # noqa: PLC0415 (scikit-learn, for those who train it)

        costs = replace(costs, predictor=learn(table, experiment.seed))
    return table, costs


def interleaved(strategies: Sequence[Item], probes: Sequence[Item]) -> list[Item]:
    """Both in turn, as evenly as may be: each strategy, then its share of the probes."""
    ends = [len(probes) * (i + 1) // max(len(strategies), 1) for i in range(len(strategies))]
    mixed: list[Item] = []
    for one, begin, end in zip(strategies, [0, *ends], ends, strict=False):
        mixed += [one, *probes[begin:end]]
    return mixed


def needed(schedules: Iterable[Schedule], costs: CostModel) -> tuple[CostRequests, int]:
    """What a replay of schedules asks of costs, and the work of the longest by `costs`, ns."""
    asked, longest = CostRequests(costs), 0
    for schedule in schedules:
        asked.note(schedule)
        longest = max(longest, work_ns(schedule, costs))
    return asked, longest
