"""REAL-G+'s epochs take less time than PSG's and every baseline's, trained for real on CPU ranks.

Real snapshots: as sliding windows of 12 months, whose neighbours overlap, and as they come, a month each, which hardly do. All strategies
take turns in one job; features of 128 numbers (REAL's Table 3), 64 hidden. Rivals: psg, esdg, distdgl, blad, real-reuse, real-g. `maps`,
`increments`: which snapshots arrive so, in per cent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from core.case import Case, Passes, Setting, Subject
from setups import jobs

from chronoscale.harness.runs.passes import load_schedules, passes_of
from chronoscale.strategies.schedule import Op

STRATEGIES = ("real-g+", "psg", "esdg", "distdgl", "blad", "real-reuse", "real-g")


def measure(settings: dict[str, object], setting: Setting) -> Passes:
    """Execute all strategies, and add how snapshots arrive."""
    keys = {**settings, "strategies": [*STRATEGIES], "repeats": setting.repeats, "threads": setting.threads, "device": "cpu"}
    run = jobs.experiment_run(setting.scratch, keys)
    (ranks,) = settings["ranks"]  # type: ignore[misc]
    plans = load_schedules(run.folder / f"ranks-{ranks}")
    shares = {}
    for name, plan in plans.items():
        ways = {"maps, %": len(plan.tasks(Op.RECONSTRUCT)), "increments, %": len(plan.tasks(Op.INCREMENT))}
        shares[name] = {key: 100 * count / int((plan.op == Op.H2D).sum()) for key, count in ways.items()}
    return jobs.figures({name: passes_of(run, ranks, name) for name in STRATEGIES}, lambda who, one: shares[who])


def cases(quick: bool) -> Iterator[Case]:
    """Yield data sets by models; `window`: months."""
    if quick:
        model = {"name": "t-gcn", "hidden": 4, "inputs": 4}
        yield Case({"data": "growth_small"}, partial(measure, {"dataset": "growth_small", "model": model, "ranks": [1], "groups": 3}))
        return
    sizes = {"math_overflow_monthly": 12, "enron_monthly": 8}
    for (data, groups), window, name, layers in product(sizes.items(), (12, None), ("wd-gcn", "evolvegcn-o"), (1, 2)):
        model = {"name": name, "hidden": 64, "inputs": 128, "layers": layers}
        settings = {"dataset": {"name": data, "window": window}, "model": model, "ranks": [2], "groups": groups}
        yield Case({"data": data, "window": window or 1, "model": name, "layers": layers}, partial(measure, settings))


SUBJECT = Subject(cases, 5)
