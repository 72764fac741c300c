"""Execution: strategies trained for real on 1, 2, … ranks; and the same schedules replayed, to see how well the simulator knows them."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.execute.calibration import Told, chosen, fitted_to, interleaved, needed, probing, sheet
from chronoscale.harness.execute.jobs import item, job, load_passes, schedules
from chronoscale.harness.execute.machine import admit, machine_for, seat, this_device, this_machine
from chronoscale.harness.execute.noise import PASSES, Noise, Watch
from chronoscale.harness.execute.profiles import fitted, named, of_file, planned_here
from chronoscale.harness.idle import Idle, warn
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.planners import planners, preparation
from chronoscale.harness.practice import Candidate
from chronoscale.harness.practices import practice_of
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.simulate.estimate import affordable
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.ranks.pinning import share
from chronoscale.records import read_json
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check
from chronoscale.simulator.uncertainty.draws import epoch_spans
from chronoscale.simulator.uncertainty.spec import Uncertainty
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import UNUSED, CostModel, FittedCosts
from chronoscale.strategies.planning.cuda_graphs import serialise_graphs
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Workload

COSTS = "costs.json"  # of a piece whose strategies are replayed: fitted to the probes beside them
PROBES = "probes"
DRAWS = 31  # of jitter
SEEN = Uncertainty("fitted", "fitted")  # as repeats have shown it
SPANS = ".spans.json"  # beside a replay: epochs of its draws


def execute(
    experiment: Experiment,
    run: Run,
    replayed: bool = False,
    told: Told = lambda _: None,
    probed: Callable[[Candidate], bool] = lambda _: True,
) -> None:
    """A piece `ranks-<n>` for every rank count: schedules, traces of every repeat, losses, and what else went on (`noise`).

    All strategies of a rank count run in one job, repeat by repeat in turn. Where they are to be `replayed` with costs that no file has,
    probes take turns with them, and the piece has the costs fitted to those (`probed`: which may be taken): no row of a strategy is among
    what is fitted. What was too noisy is then executed again, `attempts` times at most, and the quietest kept. A strategy whose plan asks
    for no costs needs no profile.

    Raises UserError before any rank starts for a strategy that can only be simulated, for a schedule that does not fit in memory, and as
    `seat`. Warns of ranks without work, and of noise.
    """
    executed, family = planners(experiment, executed=True), practice_of(experiment)
    seat(experiment, experiment.ranks)
    data = family.store(experiment, run)
    work = family.stored(experiment, data)
    affordable(executed, work, experiment.ranks)
    given = of_file(experiment) if named(experiment) else None
    plans: dict[int, dict[str, Schedule]] = {}
    divided: dict[int, dict[str, tuple[str, Workload]]] = {}
    for ranks in experiment.ranks:
        if not (run.folder / f"ranks-{ranks}").exists():
            costs: Callable[[], CostModel] = partial(planning, experiment, run, ranks, told)
            divided[ranks] = {name: family.divided(experiment, run, data, work, ranks, planner) for name, planner in executed.items()}
            plans[ranks] = {name: planned_here(planner, divided[ranks][name][1], ranks, costs) for name, planner in executed.items()}
            here = given or FittedCosts(device_name(this_device(experiment)), (), {})
            for schedule in plans[ranks].values():
                admit(schedule, machine_for(experiment, here, schedule), given or sheet(experiment))
            _beside(plans[ranks], this_machine(experiment, here, ranks))

    def items(ranks: int, part: Path) -> list[Item]:
        found = []
        for name, schedule in plans[ranks].items():
            one, planner = item(part, name, schedule, data, experiment.hyper), executed[name]
            parts, work = divided[ranks][name]
            one = replace(one, parts=parts)
            if planner.prepares:
                prepare = part / f"{name}.prepare.parquet"
                preparation(planner, work, ranks, UNUSED).save(prepare)
                one = replace(one, prepare=str(prepare))
            found.append(one)
        return found

    def make(ranks: int, part: Path) -> None:
        strategies, probes = items(ranks, part), list[tuple[Item, Schedule]]()
        if replayed and given is None:
            asked, epoch_ns = needed(plans[ranks].values(), sheet(experiment))
            (folder := part / PROBES).mkdir()
            passes = experiment.warming + experiment.repeats
            candidates = filter(probed, family.probes(experiment, run, folder).of(ranks))
            found = chosen(experiment, candidates, ranks, asked, epoch_ns, passes)
            probes = probing(experiment, found, ranks, folder)
        asking = job(experiment, f"ranks-{ranks}", interleaved(strategies, [one for one, _ in probes]), part)
        attempt(asking, ranks, part, [one.label for one in strategies], experiment.attempts if replayed else 1, told)
        if probes:
            table, costs = fitted_to(experiment, [(schedule, load_passes(part, one.label)) for one, schedule in probes])
            table.to_parquet(part / "probes.parquet")
            costs.save(part / COSTS)
            for one, _ in probes:
                for file in part.glob(f"{one.label}-*"):
                    file.unlink()
            shutil.rmtree(part / PROBES)

    for ranks in experiment.ranks:
        told(f"{ranks} rank{'s' * (ranks > 1)}")
        run.piece(f"ranks-{ranks}", partial(make, ranks))
    warn(idle(run))
    for said in one_by_one(run):
        warnings.warn(said, ChronoscaleWarning, stacklevel=2)
    for said in noisy(run).values():
        warnings.warn(said, ChronoscaleWarning, stacklevel=2)


def planning(experiment: Experiment, run: Run, ranks: int, told: Told = lambda _: None) -> CostModel:
    """What strategies plan with that ask how long something takes: a datasheet's where it is asked for, else as `fitted`."""
    return sheet(experiment) if experiment.costs == "datasheet" else fitted(experiment, run, ranks, told)


def attempt(asked: Job, ranks: int, part: Path, labels: Sequence[str], attempts: int, told: Told) -> None:
    """Run a job until a run is quiet, `attempts` times at most, the last included; what the quietest left lies in `part`. Fewer passes than
    a mean takes are timed once: no repetition makes them a measurement."""
    best: Noise | None = None
    for number in range(1, attempts + 1):
        watch, out = Watch(), part / f"attempt{number}"
        out.mkdir()
        launch(replace(asked, out=str(out)), ranks, part, told)
        timed = [load_passes(out, label) for label in labels]
        noise = watch.noise(timed, share(ranks, asked.settings.threads), number)
        if best is None or noise.level < best.level:
            best = noise
            for file in out.iterdir():
                file.replace(part / file.name)
        shutil.rmtree(out)
        if not noise.why or noise.passes < PASSES:
            break
        told(f"attempt {number} was too noisy: {noise.why}")
    assert best is not None
    replace(best, attempt=number).save(part)


def expected_ns(run: Run, ranks: int, name: str) -> float | None:
    """The predicted epoch of ranks that wait for the slowest, the median of its draws; None where none were made."""
    path = run.folder / f"replay-{ranks}" / f"{name}{SPANS}"
    return float(np.median(read_json(path, list[int], "record of drawn epochs"))) if path.exists() else None


def noisy(run: Run) -> dict[int, str]:
    """By number of ranks, why what was executed is not to be believed, in words; none where it was quiet."""
    found = {ranks: noise.told for ranks, folder in run.numbered("ranks-") if (noise := Noise.of(folder)) is not None}
    return {ranks: f"on {ranks} rank{'s' * (ranks > 1)}: {said}" for ranks, said in found.items() if said}


def one_by_one(run: Run) -> list[str]:
    """What was to run as CUDA graphs and did not, and why, a line a strategy and number of ranks."""
    found = []
    for ranks, folder in run.numbered("ranks-"):
        for name in schedules(folder):
            launched = load_passes(folder, name)[-1].launched
            if launched is not None and launched.why:
                found.append(f"launch: graph: strategy '{name}' on {ranks} rank{'s' * (ranks > 1)} was {launched}")
    return found


def idle(run: Run) -> Idle:
    """Ranks that train nothing, by strategy and number of ranks."""
    return {(name, ranks): one.idle for ranks, folder in run.numbered("ranks-") for name, one in schedules(folder).items()}


def _beside(schedules: Mapping[str, Schedule], machine: Cluster) -> None:
    """Raises UserError where strategies fit alone, but not beside each other: they are executed in turn, in one job."""
    have = machine.device.memory if machine.device.on_host else machine.host_memory / machine.gpus_per_node
    need = sum(schedule.host for schedule in schedules.values())
    if need > have:
        names = ", ".join(schedules)
        raise UserError(
            f"strategies {names}: a rank keeps {need / 1e9:.1f} GB for all of them, and has {have / 1e9:.1f} GB; run them apart"
        )


def passes(run: Run, ranks: int, name: str) -> list[Pass]:
    """Executed repeats of one strategy."""
    return load_passes(run.folder / f"ranks-{ranks}", name)


def as_launched(costs: FittedCosts, done: Pass) -> FittedCosts:
    """The costs of a pass: nothing is launched one by one where it ran as CUDA graphs. Rows then take what they took one by one, which is
    too much for those that waited for their launches."""
    return costs if done.launched is None or done.launched.why else replace(costs, launch_ns=0)


def rehearse(experiment: Experiment, run: Run) -> None:
    """A piece `replay-<n>` for every rank count: the executed schedules replayed on a model of this machine, with the costs that the
    experiment names or that were fitted to the probes beside them. Of several ranks, which wait for the slowest, also the epochs of
    `DRAWS` replays with the jitter that was fitted, ns: their median is what is predicted.

    Raises UserError when a schedule leaves the range that the costs were fitted on, or the machine's memory.
    """

    def make(ranks: int, part: Path) -> None:
        folder = run.folder / f"ranks-{ranks}"
        known = of_file(experiment) if named(experiment) else FittedCosts.load(folder / COSTS, experiment.extrapolate)
        for name, schedule in schedules(folder).items():
            cluster, done = machine_for(experiment, known, schedule), load_passes(folder, name)[-1]
            schedule, costs = serialise_graphs(schedule, done.trace), as_launched(known, done)
            trace = replay(schedule, cluster, costs)
            check(schedule, trace, cluster)
            trace.save(part / f"{name}.parquet")
            if ranks > 1 and costs.jitters:
                drawn = epoch_spans(schedule, cluster, costs, SEEN, DRAWS, experiment.seed)
                write_text(part / f"{name}{SPANS}", json.dumps(drawn.tolist()))

    for ranks in experiment.ranks:
        if not (run.folder / f"ranks-{ranks}").exists():
            raise UserError(f"{run.folder}: nothing was executed on {ranks} ranks")
        run.piece(f"replay-{ranks}", partial(make, ranks))
