"""A plan becomes a trace within seconds, for an epoch of 10,000 snapshots on up to 4,096 GPUs (REAL §7.5); so do draws and long epochs.

replay  `whole` is `engine.replay` with contention, `uncontended` without: durations, network, launches, the native engine, the trace.
        Further contestants are its steps. Rival: SimPy, which replays up to 500,000 tasks, none of which share. 33 times the snapshots
        on 1,024 GPUs are more than 10^7 tasks
draws   300 draws of what is uncertain, whole but for planning: durations, network, launches, factors, replays, by processor time.
        `mean, ms`: of the epochs drawn
command `chronoscale simulate` of an experiment file in a process of its own, by processor time of it and what it started: without joint
        draws; its rival is the same without contention
joint   joint draws of all assumptions for the strategies of examples/real_figure15.yaml on its most GPUs, with both ends of each assumption
        and the values that turn an order, on all cores, by wall time
long    an epoch that no memory holds, planned, replayed and added up stretch by stretch: DistDGL, whose counts are those of `dygraph_10k`
        times 100, parts with even shares; `peak, GB` is of the whole process. Reading a data set and its partition is not in it
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from pathlib import Path

import numpy as np
import yaml
from core.case import Case, Passes, Setting, Subject
from core.turns import Call, in_turns, seconds_of
from setups.data import evolving_workload
from setups.process import fresh, memory

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.simulate.simulation import assumed_setting
from chronoscale.harness.simulate.trials import Trials, simulate_trials
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay, replay_times
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.long_epochs.replay import replay_stretches
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.network.traffic import LinkTraffic
from chronoscale.simulator.sharing.contention import contended_shares
from chronoscale.simulator.uncertainty.draws import epoch_spans
from chronoscale.simulator.uncertainty.scenario import Scenario
from chronoscale.simulator.uncertainty.spec import Stragglers, Uncertainty
from chronoscale.strategies.baselines.snapshots.distdgl import DistDGL
from chronoscale.strategies.costs import DatasheetCosts, durations
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Partition, Workload

SIMPY_TASKS, SCALE = 500_000, 100
FIGURE_15: dict[str, object] = yaml.safe_load((Path(__file__).parents[2] / "examples" / "real_figure15.yaml").read_text())
UNCERTAIN = {"jitter": Uncertainty(0.05), "jitter, sway, a straggling node": Uncertainty(0.05, 0.05, Stragglers(1, "node"))}


def replays(name: str, gpus: int, snapshots: int, often: int, setting: Setting) -> Passes:
    """Time the steps, each with what the others have made."""
    work, cluster = evolving_workload(snapshots, often), presets.scaled(presets.cluster("h200"), gpus)
    costs = DatasheetCosts(cluster.device)
    schedule = strategy(name).plan(work, gpus, costs)
    ns, _ = durations(costs, schedule)
    rows, joined = collective_times.times(schedule, cluster)
    ns[rows] = joined
    launches = Launches.of(schedule, ns, costs.launch_ns)
    timed = collective_times.TimedCollectives.of(schedule, cluster)
    crossed = LinkTraffic.of(schedule, cluster, timed)
    shares = contended_shares(schedule, cluster, costs, ns, crossed, timed)
    steps: dict[str, Call] = {
        "whole": lambda: replay(schedule, cluster, costs),
        "uncontended": lambda: replay(schedule, replace(cluster, contention=False), costs),
        "plan": lambda: strategy(name).plan(work, gpus, costs),
        "durations": lambda: durations(costs, schedule),
        "network": lambda: collective_times.times(schedule, cluster),
        "launches": lambda: Launches.of(schedule, ns, costs.launch_ns),
        "native": lambda: replay_times(schedule, cluster.device, ns, launches, None),
        "traffic": lambda: LinkTraffic.of(schedule, cluster, collective_times.TimedCollectives.of(schedule, cluster)),
        "shares": lambda: contended_shares(schedule, cluster, costs, ns, crossed, timed),
        "shared": lambda: replay_times(schedule, cluster.device, ns, launches, shares),
    }
    if len(schedule) <= SIMPY_TASKS:
        steps["SimPy"] = lambda: replay_times(schedule, cluster.device, ns, launches, None, "simpy")
        native, simpy = steps["native"](), steps["SimPy"]()
        assert all(map(np.array_equal, native, simpy)), "engines disagree"  # type: ignore[call-overload]
    spent = in_turns({who: partial(seconds_of, call) for who, call in steps.items()}, setting.repeats)
    return {who: [{"seconds": one, "10⁶ tasks/s": len(schedule) / one / 1e6} for one in several] for who, several in spent.items()}


def draws(name: str, gpus: int, snapshots: int, count: int, setting: Setting) -> Passes:
    """Time draws and trying assumptions by processor time."""
    cluster, work = presets.scaled(presets.cluster("h200"), gpus), evolving_workload(snapshots)
    costs = DatasheetCosts(cluster.device)
    schedule = strategy(name).plan(work, gpus, costs)

    def draw(uncertainty: Uncertainty) -> dict[str, float]:
        start = time.process_time()
        spans = epoch_spans(schedule, cluster, costs, uncertainty, count, seed=0)
        return {"seconds": time.process_time() - start, "mean, ms": float(spans.mean()) / 1e6}

    ways: dict[str, Callable[[], dict[str, float]]] = {who: partial(draw, uncertainty) for who, uncertainty in UNCERTAIN.items()}
    return in_turns(ways, setting.repeats)


def command(keys: Mapping[str, object], setting: Setting) -> Passes:
    """Run the command, by processor time."""
    files = {"contention": keys, "no contention": {**keys, "contention": False}}
    for who, content in files.items():
        (setting.scratch / f"{who.replace(' ', '-')}.yaml").write_text(yaml.safe_dump({**content, "assumptions": {"draws": 0}}))

    def simulate(who: str) -> dict[str, float]:
        before, root = resource.getrusage(resource.RUSAGE_CHILDREN), tempfile.mkdtemp(dir=setting.scratch)
        words = ["simulate", str(setting.scratch / f"{who.replace(' ', '-')}.yaml"), "--runs", root]
        subprocess.run([sys.executable, "-m", "chronoscale", *words], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {"seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}

    return in_turns({who: partial(simulate, who) for who in files}, setting.repeats)


def joint(keys: Mapping[str, object], draws: int, setting: Setting) -> Passes:
    """Draw assumptions of strategies that are planned beforehand."""
    experiment = check({**keys, "assumptions": {"draws": draws}}, "the case")
    start = assumed_setting(experiment)
    work = workflow_of(experiment.family).workload(experiment)
    scenarios = {
        name: Scenario(
            planner.plan(work, start.gpus, start.costs), start.machines, start.costs, start.uncertainty, work.constant_bytes
        ).explicit
        for name, planner in planners(experiment).items()
    }
    passes = []
    for _ in range(setting.repeats):
        begin = time.perf_counter()
        trials = Trials.of(scenarios, draws, 0)
        _, conclusions = simulate_trials(trials, [*combinations(scenarios, 2)], lambda _: None)
        passes.append({"seconds": time.perf_counter() - begin, "draws": draws, "pairs": len(conclusions)})
    return {"all cores": passes}


def replay_long(snapshots: int, gpus: int, layers: int) -> dict[str, float]:
    """Replay one epoch stretch by stretch in this process."""
    graph = EvolvingGraph(nodes=3000, edges=30_000, snapshots=snapshots)
    stats, part = graph.statistics().scaled(SCALE), np.arange(gpus)
    rows = np.broadcast_to((stats.num_nodes + gpus - 1 - part) // gpus, (snapshots, gpus))
    edges = (stats.edges[:, None] + gpus - 1 - part) // gpus
    halo = np.minimum(edges, stats.num_nodes - rows)
    work = Workload(graph.name, stats, model_shape("wd-gcn", 64, 64, layers), Hyper(), Partition(rows, edges, halo, halo))
    cluster = presets.scaled(presets.cluster("h200"), gpus)
    costs, start = DatasheetCosts(cluster.device), time.perf_counter()
    result = replay_stretches(DistDGL().stretches(work, gpus, costs), cluster, costs)
    spent = time.perf_counter() - start
    epoch = {"epoch, s": result.summary.epoch_s, "rows": result.rows, "rows/s": result.rows / spent}
    return {"seconds": spent, **epoch, "peak, GB": memory("VmHWM") / 1e9}


def long_epochs(snapshots: int, gpus: int, layers: int, setting: Setting) -> Passes:
    """Replay in processes of their own."""
    return {"stretch by stretch": [fresh(replay_long, snapshots, gpus, layers)]}


def cases(quick: bool) -> Iterator[Case]:
    """Yield strategies by GPUs."""
    snapshots = 10 if quick else 10_000
    for gpus, name in product((4,) if quick else (4, 16, 64, 256, 1024, 4096), ("psg", "blad", "real-g+")):
        yield Case({"what": "replay", "strategy": name, "gpus": gpus}, partial(replays, name, gpus, snapshots, 1))
    if not quick:
        yield Case({"what": "replay", "strategy": "psg", "gpus": 1024, "times": 33}, partial(replays, "psg", 1024, snapshots, 33))
    for name in ("psg", "real-reuse"):
        gpus, count = (4, 3) if quick else (1024, 300)
        parameters = {"what": "draws", "strategy": name, "gpus": gpus, "draws": count}
        yield Case(parameters, partial(draws, name, gpus, snapshots, count))
    few: dict[str, object] = {"dataset": "growth_small", "strategies": ["psg"], "gpus": [2]}
    large: dict[str, object] = {**FIGURE_15, "gpus": [1024], "strategies": ["psg", "blad", "real-g+"]}
    for name, keys in {"small": few}.items() if quick else {"three on 1024": large, "figure 15": FIGURE_15}.items():
        yield Case({"what": "command", "experiment": name}, partial(command, keys))
    yield Case({"what": "joint", "draws": 2 if quick else 256}, partial(joint, few if quick else FIGURE_15, 2 if quick else 256))
    for layers, gpus in ((1, 2),) if quick else product((1, 2), (4, 64, 1024)):
        yield Case({"what": "long", "layers": layers, "gpus": gpus}, partial(long_epochs, snapshots, gpus, layers))


SUBJECT = Subject(cases, 5, ("simpy",))
