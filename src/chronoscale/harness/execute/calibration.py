"""Calibration: probes chosen, timed, fitted; before anything is planned, or in turn with the strategies that their costs will replay."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.execute.budget import Budget, work_ns
from chronoscale.harness.execute.jobs import make_item, make_job
from chronoscale.harness.execute.machine import check_seats, machines, sharing, this_device
from chronoscale.harness.execute.watch import Watch
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.cost_models import datasheet_costs
from chronoscale.harness.planning.schedules import plan_epoch
from chronoscale.harness.runs.noise import PASSES
from chronoscale.harness.runs.passes import load_passes
from chronoscale.harness.runs.profile_record import PROFILED, ProfileRecord
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.execution import Execution, ProbeCandidate
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.collectives import all_reduces
from chronoscale.real_exec.measurement.environment import device_name, fingerprint
from chronoscale.real_exec.measurement.fit import fit, fit_pace, tabulate_samples, with_enough_samples
from chronoscale.real_exec.measurement.kernels import launch_ns
from chronoscale.real_exec.measurement.pairs import fit_pairs, is_messages, messages
from chronoscale.real_exec.measurement.repeats import rank_sway
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.ranks.machines import describe
from chronoscale.real_exec.ranks.process_setup import cores_per_rank
from chronoscale.strategies.costing.request import CostRequests
from chronoscale.strategies.costs import CostModel, FittedCosts
from chronoscale.strategies.schedule import Schedule

LEARNING_RATE = 1e-3  # of probes, which are timed: a rate that is too large for the experiment is no reason to stop here
OnProgress = Callable[[str], None]


def ignore_progress(_: str) -> None:
    """Do nothing with a line about progress: the default of `on_progress`."""


def measure_profile(
    execution: Execution[Any], experiment: Experiment, run: Run, folder: Path, on_progress: OnProgress = ignore_progress
) -> None:
    """Time short schedules on this machine and fit cost curves to their rows, for every rank count of an experiment: `chronoscale profile`.

    Writes to `folder`: profile.parquet (a row a task), costs-<ranks>.json (fitted curves, and a learned predictor for windows of blocks),
    the noise meanwhile, and a ProfileRecord. on_progress: called with a line of text now and then.
    """
    check_seats(experiment, experiment.ranks)
    begun, load = datetime.now(UTC).isoformat(timespec="seconds"), os.getloadavg()[0]
    work = folder / "work"
    work.mkdir()
    probes = execution.probes(experiment, run, work)
    tables = []
    timed: list[list[Pass]] = []
    watch = Watch()
    passes = min(experiment.repeats, PASSES)
    for ranks in sorted(set(experiment.ranks)):
        on_progress(f"choosing what to time on {ranks} ranks")
        requests, epoch_ns, incomplete = _epoch_requests(execution, experiment, run, ranks)
        chosen = choose_probes(experiment, probes.of(ranks), ranks, requests, epoch_ns, experiment.warming + passes, incomplete)
        items = probe_items(experiment, chosen, ranks, work)
        probe_job = replace(make_job(experiment, f"probes-{ranks}", [item for item, _ in items], work), repeats=passes)
        launch(probe_job, ranks, work, on_progress)
        measured = [(schedule, load_passes(work, item.label)) for item, schedule in items]
        timed += [each for _, each in measured]
        table, costs = fit_probes(experiment, measured)
        tables.append(table)
        costs.save(folder / f"costs-{ranks}.json")
    pd.concat(tables, ignore_index=True).to_parquet(folder / "profile.parquet")
    noise = watch.noise(timed, cores_per_rank(max(experiment.ranks), experiment.threads))
    noise.save(folder)
    if noise.sentence:
        warnings.warn(f"profile: {noise.sentence}", ChronoscaleWarning, stacklevel=2)
    record = ProfileRecord(sorted(planners(experiment)), run.folder.name, begun, load)
    (folder / PROFILED).write_text(json.dumps(asdict(record)))
    shutil.rmtree(work)


def _epoch_requests(execution: Execution[Any], experiment: Experiment, run: Run, ranks: int) -> tuple[CostRequests, int, bool]:
    """Return the requests of costs that the experiment's plans and their rows would make, estimated from a datasheet; the longest epoch's
    work by it, ns; and whether requests are missing, since what cannot be executed has no operations of its own here.
    """
    costs = datasheet_costs(experiment.cluster)
    requests, longest, incomplete = CostRequests(costs), 0, False
    workflow = execution.workflow
    data = workflow.store(experiment, run)
    work = workflow.stored(experiment, data)
    for planner in planners(experiment).values():
        if not planner.executes:
            incomplete = True
            continue
        _, partitioned = workflow.partition(experiment, run, data, work, ranks, planner)
        schedule = plan_epoch(planner, partitioned, ranks, requests, sketched=True)
        requests.note(schedule)
        longest = max(longest, work_ns(schedule, costs))
    return requests, longest, incomplete


def replay_requests(schedules: Iterable[Schedule], costs: CostModel) -> tuple[CostRequests, int]:
    """Return which cost curves, over which ranges, a replay of schedules will ask, and the work of the longest schedule by `costs`, ns.

    For `chronoscale validate`, which times probes of them.
    """
    requests, longest = CostRequests(costs), 0
    for schedule in schedules:
        requests.note(schedule)
        longest = max(longest, work_ns(schedule, costs))
    return requests, longest


def choose_probes(
    experiment: Experiment,
    candidates: Iterable[ProbeCandidate],
    ranks: int,
    requests: CostRequests,
    epoch_ns: float,
    passes: int,
    incomplete: bool = False,
) -> list[ProbeCandidate]:
    """Choose the probes (short schedules) that `chronoscale profile` or `validate` times: those that sample what is requested, and others
    while all `passes` over them together take no more than `experiment.profile_epochs` epochs.

    requests: curves and ranges that costs will be asked for; `incomplete`: not all are known. epoch_ns: work of an epoch by the same
    datasheet; 0: unknown, and all probes are taken. Warns where what is needed takes longer.
    """
    allowed = experiment.profile_epochs * epoch_ns / passes if epoch_ns else float("inf")
    budget = Budget(requests.ranges, allowed, datasheet_costs(experiment.cluster), incomplete)
    chosen = budget.choose(candidates)
    if (epochs := budget.spent_ns * passes / max(epoch_ns, 1)) > experiment.profile_epochs and epoch_ns:
        whose = f"{ranks} rank{'s have' if ranks > 1 else ' has'}"
        warning = f"profile: {passes} passes over what {whose} to know take about {epochs:.0f} epochs, more than profile_epochs: "
        warning += f"{experiment.profile_epochs:g}; fewer repeats or strategies take less"
        warnings.warn(warning, ChronoscaleWarning, stacklevel=2)
    return chosen


def probe_items(experiment: Experiment, probes: Sequence[ProbeCandidate], ranks: int, folder: Path) -> list[tuple[Item, Schedule]]:
    """Write chosen probes to `folder` as what ranks execute: items of a job, each with its schedule.

    For several ranks all-reduces of many sizes are added, for several machines messages between each two.
    """
    items = [(replace(probe.item(), learning_rate=LEARNING_RATE, probes=True), probe.schedule) for probe in probes]
    if ranks > 1:
        reduces = all_reduces(ranks)
        items.append((replace(make_item(folder, reduces.name, reduces, "", experiment.hyper), probes=True), reduces))
    if len(apart := _ranks_of_machines(ranks)) > 1:
        sent = messages(apart)
        items.append((replace(make_item(folder, sent.name, sent, "", experiment.hyper), probes=True), sent))
    return items


def _ranks_of_machines(ranks: int) -> list[range]:
    there = [(machine.first_rank, machine.of(ranks)) for machine in machines()]
    return [range(first, first + count) for first, count in there if count]


def fit_probes(experiment: Experiment, measured: Sequence[tuple[Schedule, list[Pass]]]) -> tuple[pd.DataFrame, FittedCosts]:
    """Fit cost curves to the measured passes over probes, for `chronoscale profile` and `validate`; return their rows as a table, and the
    costs.

    measured: schedules, each with its passes (timed repetitions).
    """
    sent = [each for each in measured if is_messages(each[0])]
    measured = [each for each in measured if each not in sent]
    device, table = this_device(experiment.device), tabulate_samples(measured)
    here = fingerprint(device) | sharing(experiment) | describe(machines())
    costs = fit(with_enough_samples(table), device_name(device), here, experiment.seed, launch_ns(device), rank_sway(measured))
    if (table["schedule"] == "blocks").any():
        from chronoscale.real_exec.measurement.predictor import fit_predictor  # noqa: PLC0415 (scikit-learn, for those who train it)

        costs = replace(costs, predictor=fit_predictor(table, experiment.seed))
    if sent:
        apart = _ranks_of_machines(sent[0][0].ranks)
        costs = replace(costs, pairs=fit_pairs(*sent[0], apart), pace=fit_pace(costs, measured, apart))
    return table, costs


def interleave(strategies: Sequence[Item], probes: Sequence[Item]) -> list[Item]:
    """Mix strategies and probes for one job of `chronoscale validate`, so that both meet the same state of the machine: each strategy is
    followed by its share of the probes.
    """
    ends = [len(probes) * (i + 1) // max(len(strategies), 1) for i in range(len(strategies))]
    mixed: list[Item] = []
    for strategy, begin, end in zip(strategies, [0, *ends], ends, strict=False):
        mixed += [strategy, *probes[begin:end]]
    return mixed
