"""REAL-G+ takes less time than PSG at equal groups a step, and rows that groups share are most of it.

Real snapshots, as they come (a month each) and as sliding windows of 12 months. Two groups a rank and step in every strategy, all take
turns in one job; 128 features (REAL's Table 3), 64 hidden. psg shares nothing, real-g+-own snapshots, real-g+ rows of the recurrence, too.
`stay`: rows of which a pair's second group computes nothing, in per cent, the mean over its steps; 0 where the planner shares none. All
take as many steps of the optimiser (`steps`), which is asserted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
from core.case import Case, Passes, Setting, Subject
from setups import jobs

from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.variants import TemporalVariant

STRATEGIES = ("real-g+", "real-g+-own", "psg")


def rows_that_stay(plan: Schedule, one: Pass) -> dict[str, float]:
    """Return the steps of the optimiser, which have to be alike, and the share of rows that pairs compute once."""
    steps = plan.tasks(Op.TEMPORAL)
    second = steps[np.isin(plan.variant[steps], (TemporalVariant.REST, TemporalVariant.REST_FIRST))]
    return {"steps": plan.iterations, "stay, %": 100 * float(1 - (plan.rows[second] / plan.nodes[second]).mean()) if len(second) else 0.0}


def measure(settings: jobs.Settings, setting: Setting) -> Passes:
    """Time epochs in turns, and assert that all strategies take as many steps of the optimiser."""
    passes = jobs.epochs(settings, setting, rows_that_stay)
    steps = {name: each[0]["steps"] for name, each in passes.items()}
    assert len(set(steps.values())) == 1, f"steps of the optimiser differ: {steps}"
    return passes


def cases(quick: bool) -> Iterator[Case]:
    """Yield data sets by models; `window`: months."""
    common = {"strategies": [*STRATEGIES], "costs": "auto", "training": {"groups_per_rank": 2}}
    if quick:
        model = {"name": "t-gcn", "hidden": 4, "inputs": 4}
        settings = {**common, "dataset": "growth_small", "model": model, "ranks": [1], "groups": 4, "costs": "datasheet"}
        yield Case({"data": "growth_small"}, partial(measure, settings))
        return
    sizes = {"math_overflow_monthly": 12, "enron_monthly": 8}
    for (data, groups), window, name, ranks in product(sizes.items(), (None, 12), ("wd-gcn", "t-gcn"), (1, 2)):
        model = {"name": name, "hidden": 64, "inputs": 128}
        settings = {**common, "dataset": {"name": data, "window": window}, "model": model, "groups": groups, "ranks": [ranks]}
        yield Case({"data": data, "window": window or 1, "model": name, "ranks": ranks}, partial(measure, settings))


SUBJECT = Subject(cases, 5)
