"""Execution: strategies trained for real on 1, 2, … ranks, all strategies of a rank count in one job."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.execute.calibration import (
    OnProgress,
    choose_probes,
    fit_probes,
    ignore_progress,
    interleave,
    probe_items,
    replay_requests,
)
from chronoscale.harness.execute.jobs import add_data, make_item, make_job
from chronoscale.harness.execute.machine import admit, check_seats, machine_for, this_device, this_machine
from chronoscale.harness.execute.profiles import planning_costs
from chronoscale.harness.execute.watch import Watch
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.cost_models import costs_of_file, datasheet_costs, names_cost_file
from chronoscale.harness.planning.estimate import affordable
from chronoscale.harness.planning.schedules import plan_with_costs_on_demand
from chronoscale.harness.runs.idle import warn_of_idle_ranks
from chronoscale.harness.runs.noise import PASSES, Noise
from chronoscale.harness.runs.passes import COSTS, PLANNED, idle_ranks, launch_sentences, load_passes, noise_sentences
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.execution import Execution, ProbeCandidate
from chronoscale.harness.workflows.execution_registry import execution_of
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.ranks.process_setup import cores_per_rank
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, FittedCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload

PROBES = "probes"


@dataclass(frozen=True, slots=True)
class Plan:
    """Schedule that one strategy executes on a number of ranks, for `chronoscale bench`, with what it was planned for.

    costs: name of the costs that it was planned with, '' where the plan asked for none. partition: file of the vertices' partition, '' for
    none.
    """

    planner: Strategy
    schedule: Schedule
    costs: str
    partition: str
    work: Workload


def execute(
    experiment: Experiment,
    run: Run,
    replayed: bool = False,
    on_progress: OnProgress = ignore_progress,
    takes_probe: Callable[[ProbeCandidate], bool] = lambda _: True,
) -> None:
    """Train with every strategy of an experiment on every number of ranks here, for `chronoscale bench` and `validate`.

    Fills a piece `ranks-<n>` of the run for each: schedules, a trace a repeat, losses, and the machine's load meanwhile (`Noise`). All
    strategies of a rank count run in one job, repeat by repeat in turn. Plans that ask for durations have them of `planning_costs`; which
    those were is recorded.

    replayed: as for `validate`: probes (short schedules) are timed in turn with the strategies, where the experiment names no file of
    costs, and costs.json of the piece is fitted to them alone, for a replay; a piece that was too noisy is executed again, `attempts` times
    in all at most, and the quietest attempt stays. takes_probe: says which probes may be timed. on_progress: called with a line of text now
    and then.

    Raises UserError before any rank starts for a strategy that can only be simulated, for a schedule that does not fit in memory, and as
    `check_seats`. Warns of ranks without work, and of noise.
    """
    strategies, execution = planners(experiment, executed=True), execution_of(experiment.family)
    workflow = execution.workflow
    check_seats(experiment, experiment.ranks)
    data = workflow.store(experiment, run)
    work = workflow.stored(experiment, data)
    affordable(strategies, work, experiment.ranks)
    named = costs_of_file(experiment, device_name(this_device(experiment.device))) if names_cost_file(experiment) else None
    plans: dict[int, dict[str, Plan]] = {}
    for ranks in experiment.ranks:
        if not (run.folder / f"ranks-{ranks}").exists():
            costs: Callable[[], CostModel] = partial(planning_costs, execution, experiment, run, ranks, on_progress)
            partitions = {name: workflow.partition(experiment, run, data, work, ranks, planner) for name, planner in strategies.items()}
            plans[ranks] = {
                name: Plan(planner, *plan_with_costs_on_demand(planner, partitions[name][1], ranks, costs), *partitions[name])
                for name, planner in strategies.items()
            }
            _admit_all(experiment, {name: plan.schedule for name, plan in plans[ranks].items()}, ranks, named)

    def make(ranks: int, part: Path) -> None:
        items = _strategy_items(experiment, plans[ranks], data, part)
        (part / PLANNED).write_text(json.dumps({name: plan.costs for name, plan in plans[ranks].items() if plan.costs}))
        probes: list[tuple[Item, Schedule]] = []
        if replayed and named is None:
            schedules = [plan.schedule for plan in plans[ranks].values()]
            probes = _probe_items(execution, experiment, run, schedules, ranks, part, takes_probe)
        asked = make_job(experiment, f"ranks-{ranks}", interleave(items, [item for item, _ in probes]), part)
        run_attempts(asked, ranks, part, [item.label for item in items], experiment.attempts if replayed else 1, on_progress)
        if probes:
            _replace_probes_by_costs(experiment, probes, part)

    for ranks in experiment.ranks:
        on_progress(f"{ranks} rank{'s' * (ranks > 1)}")
        run.piece(f"ranks-{ranks}", partial(make, ranks))
    warn_of_idle_ranks(idle_ranks(run))
    for sentence in (*launch_sentences(run), *noise_sentences(run).values()):
        warnings.warn(sentence, ChronoscaleWarning, stacklevel=2)


def _admit_all(experiment: Experiment, schedules: Mapping[str, Schedule], ranks: int, named: FittedCosts | None) -> None:
    """Raises UserError where a schedule does not fit in memory, or all of them do not, side by side."""
    link = named or FittedCosts(device_name(this_device(experiment.device)), (), {})
    for schedule in schedules.values():
        admit(schedule, machine_for(experiment, link, schedule), named or datasheet_costs(experiment.cluster))
    _check_host_memory(schedules, this_machine(experiment, link, ranks))


def _check_host_memory(schedules: Mapping[str, Schedule], machine: Cluster) -> None:
    """Check that host memory has room for all strategies at once, which one job executes in turn. Raises UserError where they fit one by
    one, but not together.
    """
    have = machine.device.memory if machine.device.on_host else machine.host_memory / machine.gpus_per_node
    need = sum(schedule.host for schedule in schedules.values())
    if need > have:
        names = ", ".join(schedules)
        raise UserError(
            f"strategies {names}: a rank keeps {need / 1e9:.1f} GB for all of them, and has {have / 1e9:.1f} GB; run them apart"
        )


def _strategy_items(experiment: Experiment, plans: Mapping[str, Plan], data: Path, part: Path) -> list[Item]:
    return [
        add_data(
            make_item(part, name, plan.schedule, data, experiment.hyper), part, plan.planner, plan.work, plan.schedule.ranks, plan.partition
        )
        for name, plan in plans.items()
    ]


def _probe_items(
    execution: Execution[Any],
    experiment: Experiment,
    run: Run,
    schedules: Sequence[Schedule],
    ranks: int,
    part: Path,
    takes_probe: Callable[[ProbeCandidate], bool],
) -> list[tuple[Item, Schedule]]:
    """Probes of what replays of the schedules will ask of costs."""
    requests, epoch_ns = replay_requests(schedules, datasheet_costs(experiment.cluster))
    (folder := part / PROBES).mkdir()
    candidates = filter(takes_probe, execution.probes(experiment, run, folder).of(ranks))
    chosen = choose_probes(experiment, candidates, ranks, requests, epoch_ns, experiment.warming + experiment.repeats)
    return probe_items(experiment, chosen, ranks, folder)


def _replace_probes_by_costs(experiment: Experiment, probes: Sequence[tuple[Item, Schedule]], part: Path) -> None:
    table, costs = fit_probes(experiment, [(schedule, load_passes(part, item.label)) for item, schedule in probes])
    table.to_parquet(part / "probes.parquet")
    costs.save(part / COSTS)
    for item, _ in probes:
        for file in part.glob(f"{item.label}-*"):
            file.unlink()
    shutil.rmtree(part / PROBES)


def run_attempts(job: Job, ranks: int, part: Path, labels: Sequence[str], attempts: int, on_progress: OnProgress) -> None:
    """Run a job of `chronoscale bench` or `validate` until an attempt was quiet, `attempts` times at most; the quietest one's files end in
    `part`.

    labels: of the items that noise is judged by. With fewer passes than a mean of them takes, there is one attempt: no repetition makes
    them a measurement.
    """
    best: Noise | None = None
    for number in range(1, attempts + 1):
        watch, out = Watch(), part / f"attempt{number}"
        out.mkdir()
        launch(replace(job, out=str(out)), ranks, part, on_progress)
        timed = [load_passes(out, label) for label in labels]
        noise = watch.noise(timed, cores_per_rank(ranks, job.settings.threads), number)
        if best is None or noise.level < best.level:
            best = noise
            for file in out.iterdir():
                file.replace(part / file.name)
        shutil.rmtree(out)
        if not noise.why or noise.passes < PASSES:
            break
        on_progress(f"attempt {number} was too noisy: {noise.why}")
    assert best is not None
    replace(best, attempt=number).save(part)
