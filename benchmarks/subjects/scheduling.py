"""REAL-G+'s makespans are within a few per cent of a certified bound, in seconds, and the ILP proves no better.

Workloads: the 10,000 snapshots of examples/real_figure15.yaml (h200 datasheet costs), windows of 12 months of the real monthly sequences,
random groups. `heuristics`: planners by their one thread's processor time; rivals Algorithm 1 (real-g, as printed; `ties by reuse` is the
first start of real-g+; `thinned` tries 64 of the candidate targets) and dealing (real-reuse); `gap, %` to the bound. `programs`: integer
programs by a solver's wall time, of 60 s at most; `gap`: by the solver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TypeVar

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns

from chronoscale.cuda_ext.scheduling.greedy import Ties, pair_groups
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.workflows.snapshots.data import workload
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.real import greedy_plus
from chronoscale.strategies.real.benefit import Benefit, compute_benefit
from chronoscale.strategies.real.bound import lower_bound
from chronoscale.strategies.real.check import check
from chronoscale.strategies.real.greedy_plus import search
from chronoscale.strategies.real.ilp import ILPSettings, optimise
from chronoscale.strategies.real.seats import makespan, seat
from chronoscale.strategies.snapshots.groups import Placement, deal

FIGURE = Path(__file__).parents[2] / "examples" / "real_figure15.yaml"
T = TypeVar("T")


@cache
def problem(name: str) -> Benefit:
    """Return groups' times and reuse by name: `figure15[:GROUPS]`, a data set by months, or `drawn:GROUPS:SIGMA:SHARE:SEED`."""
    if name.startswith("drawn"):
        groups, sigma, share, seed = name.split(":")[1:]
        return drawn(int(groups), float(sigma), float(share), int(seed))
    data, _, groups = name.partition(":")
    if data == "figure15":
        experiment = load(FIGURE, {})
    else:
        experiment = Experiment.model_validate({"dataset": {"name": data, "window": 12}, "cluster": "h200"})
    benefits = compute_benefit(workload(experiment), DatasheetCosts(presets.cluster(experiment.cluster).device))
    return Benefit(benefits.times[: int(groups)], benefits.reuse[: int(groups)]) if groups else benefits


def drawn(groups: int, sigma: float, share: float, seed: int = 0) -> Benefit:
    """Return log-normal times; neighbours share up to `share` of the shorter one, less the farther apart."""
    rng = np.random.default_rng(seed)
    times, reuse = rng.lognormal(0, sigma, groups) * 1e6, np.zeros((groups, 3))
    for k in range(3):
        shorter = np.minimum(times[: groups - k - 1], times[k + 1 :])
        reuse[: groups - k - 1, k] = shorter * share * (3 - k) / 3 * rng.uniform(0.5, 1, len(shorter))
    return Benefit(times, reuse)


def timed(call: Callable[[], T], figures: Callable[[T], dict[str, float]]) -> dict[str, float]:
    """Return this thread's processor time of a call, and figures of its result."""
    start = time.thread_time()
    result = call()
    return {"seconds": time.thread_time() - start, **figures(result)}


def algorithm_1(of: Benefit, gpus: int, thinned: bool = False, ties: Ties = "first") -> Placement:
    """Return Algorithm 1's placement by one thread; with `thinned` not all targets are candidates."""
    pairs = pair_groups(of.times, of.reuse, gpus, greedy_plus.THINNED if thinned else 0, 1, ties)
    return Placement(gpus, pairs.gpu.astype(np.int64), pairs.iteration.astype(np.int64), pairs.slot.astype(np.int64))


def heuristics(name: str, gpus: int, setting: Setting) -> Passes:
    """Compare planners by time and makespan."""
    of = problem(name)
    least = lower_bound(of, gpus)

    def seen(span: float) -> dict[str, float]:
        return {"makespan, ms": span / 1e6, "gap, %": 100 * (1 - least / span)}

    ways: dict[str, Callable[[], dict[str, float]]] = {
        "real-g+": lambda: timed(lambda: search(of, gpus), lambda plan: seen(check(seat(of, plan, gpus), of))),
        "real-g": lambda: timed(lambda: algorithm_1(of, gpus), lambda plan: seen(check(plan, of))),
        "real-reuse": lambda: timed(lambda: deal(len(of.times), gpus, 2), lambda plan: seen(check(plan, of))),
        "bound": lambda: timed(lambda: lower_bound(of, gpus), seen),
    }
    ways["real-g, ties by reuse"] = lambda: timed(lambda: algorithm_1(of, gpus, ties="reuse"), lambda plan: seen(check(plan, of)))
    if len(of.times) > greedy_plus.THINNED:
        ways["real-g, thinned"] = lambda: timed(lambda: algorithm_1(of, gpus, True), lambda plan: seen(check(plan, of)))
    return in_turns(ways, setting.repeats)


def programs(name: str, gpus: int, limit: float, setting: Setting) -> Passes:
    """Solve integer programs that start from REAL-G+."""
    of = problem(name)
    start, certified = search(of, gpus), lower_bound(of, gpus)
    value = makespan(of, start, gpus)
    ways = [("compact", 200, 0.1, False), ("compact", 400, 0.03, False)]
    ways += [("published", 0, 0.1, False), ("published", 0, 0.1, True)] if len(of.times) <= 12 or name.endswith(":0") else []
    passes: dict[str, list[dict[str, float]]] = {}
    for formulation, levels, gap, cut in ways:
        how = ILPSettings(limit, gap, formulation, levels=levels, always=True)  # type: ignore[arg-type]
        answer = optimise(of, gpus, start, how, certified=certified if cut else 0.0)
        figures = {
            "of real-g+": answer.objective / value,
            "gap, %": 100 * answer.to(answer.proved),
            "certified, %": 100 * (1 - certified / value),
        }
        key = f"{formulation}, {levels or 'all'} loads, gap of {gap:.0%}{', cut' * cut}: {answer.solver}, {answer.status}"
        passes[key] = [{"seconds": answer.seconds, **figures}]
    return passes


def cases(quick: bool) -> Iterator[Case]:
    """Yield what is compared by groups and GPUs."""
    if quick:
        yield Case({"what": "heuristics", "groups": "drawn:12:0.4:0.6:0", "gpus": 2}, partial(heuristics, "drawn:12:0.4:0.6:0", 2))
        return
    of: list[tuple[str, int]] = [("figure15", gpus) for gpus in (1, 4, 64, 512, 1024)]
    of += product(("math_overflow_monthly", "enron_monthly"), (4, 8, 16))
    of += [("drawn:64:0.4:0.6:0", 8), ("drawn:200:0.4:0.6:0", 16), ("drawn:2000:0.2:0.5:0", 64)]
    of += [("drawn:2000:0.4:0.6:0", 64), ("drawn:3000:0.4:0.6:0", 64), ("figure15:3000", 64), ("drawn:200:0.7:0.5:0", 16)]
    for name, gpus in of:
        yield Case({"what": "heuristics", "groups": name, "gpus": gpus}, partial(heuristics, name, gpus))
    solved = [(f"drawn:64:0.4:0.6:{seed}", 8) for seed in range(3)] + [("figure15:64", 8), ("drawn:12:0.4:0.6:0", 3)]
    for name, gpus in solved:
        yield Case({"what": "programs", "groups": name, "gpus": gpus}, partial(programs, name, gpus, 60.0))


SUBJECT = Subject(cases, 5, ("highspy", "gurobipy"))
