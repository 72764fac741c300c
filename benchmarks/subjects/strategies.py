"""REAL-G+'s epochs take less time than PSG's and every baseline's, trained for real on CPU ranks.

Real snapshots: as sliding windows of 12 months, whose neighbours overlap, and as they come, a month each, which hardly do. All strategies
take turns in one job; features of 128 numbers (REAL's Table 3), 64 hidden. Rivals: psg, esdg, distdgl, blad, real-reuse, real-g. `maps`,
`increments`: which snapshots arrive so, in per cent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from core.case import Case, Subject
from setups import jobs

from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.strategies.schedule import Op, Schedule

STRATEGIES = ("real-g+", "psg", "esdg", "distdgl", "blad", "real-reuse", "real-g")


def arrivals(plan: Schedule, one: Pass) -> dict[str, float]:
    """Return how snapshots arrive."""
    counts = {"maps, %": len(plan.tasks(Op.RECONSTRUCT)), "increments, %": len(plan.tasks(Op.INCREMENT))}
    return {key: 100 * count / int((plan.op == Op.H2D).sum()) for key, count in counts.items()}


def cases(quick: bool) -> Iterator[Case]:
    """Yield data sets by models; `window`: months."""
    common = {"strategies": [*STRATEGIES], "ranks": [2], "costs": "auto"}
    if quick:
        model = {"name": "t-gcn", "hidden": 4, "inputs": 4}
        settings = {**common, "dataset": "growth_small", "model": model, "ranks": [1], "groups": 3, "costs": "datasheet"}
        yield Case({"data": "growth_small"}, partial(jobs.epochs, settings, figures=arrivals))
        return
    sizes = {"math_overflow_monthly": 12, "enron_monthly": 8}
    for (data, groups), window, name, layers in product(sizes.items(), (12, None), ("wd-gcn", "evolvegcn-o"), (1, 2)):
        model = {"name": name, "hidden": 64, "inputs": 128, "layers": layers}
        settings = {**common, "dataset": {"name": data, "window": window}, "model": model, "groups": groups}
        yield Case({"data": data, "window": window or 1, "model": name, "layers": layers}, partial(jobs.epochs, settings, figures=arrivals))


SUBJECT = Subject(cases, 5)
