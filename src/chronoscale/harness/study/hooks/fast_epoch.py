"""FAST's epochs: shares of sampling, memory I/O and computing, and what its components and compressing are worth (Figures 1 and 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from chronoscale.harness.study.hooks.fast_cases import BOUND, OPERATORS
from chronoscale.harness.study.hooks.fast_costs import Rates
from chronoscale.harness.study.hooks.fast_executed import Executed, passes, seconds, timed
from chronoscale.harness.study.hooks.fast_points import TGL, Point, ratio, simulate
from chronoscale.harness.study.hooks.fast_rates import paced, solved
from chronoscale.harness.study.point import StudyPoint
from chronoscale.strategies.evaluation.metrics import time_by_op
from chronoscale.strategies.schedule import Op

PARTS: Mapping[str, tuple[Op, ...]] = {
    "sampling": (Op.SAMPLE,),
    "memory I/O": (Op.GATHER, Op.H2D, Op.D2H, Op.MEMORY_READ, Op.MEMORY_WRITE, Op.COPY),
    "computing": (Op.MEMORY_UPDATE, Op.AGGREGATE, Op.FORWARD, Op.BACKWARD, Op.OPTIMIZE),
}
RUNGS = ("fast-none", "fast-sc", "fast-sc-te", "fast-sc-te-ta")
LADDER = Executed("wikitalk", "tgn", RUNGS, 400_000, 5, 6, hidden=32)
QUICK_LADDER = Executed("wikitalk", "tgn", RUNGS, 30_000, 1, 1, hidden=8)


def by_part(spent: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of an epoch's parts, from those of operations by name."""
    return {part: sum(spent.get(op.name, 0.0) for op in ops) for part, ops in PARTS.items()}


def shares(spent: Mapping[str, float]) -> dict[str, float]:
    """Return the shares of the parts of an epoch in which nothing overlaps. They add up to 1."""
    found = by_part(spent)
    return {part: share / sum(found.values()) for part, share in found.items()}


def parts_of_an_epoch(point: StudyPoint) -> dict[str, Any]:
    """Return shares and seconds of the parts of an epoch of TGL, and its seconds: simulated, or executed on a part of a stand-in, of the
    median epoch; quick: one epoch of two batches, a narrow model."""
    how, quick = point.setting("how"), point.setting("short")
    if how == "executed here":
        sizes = (60_000, 2, 1) if quick else (400_000, 4, 3)
        one = Executed(point.dataset, point.model, (TGL,), *sizes, **({"hidden": 16} if quick else {}))
        found = passes(one)[TGL]
        middle = found[int(np.argsort([one.trace.span_ns for one in found], kind="stable")[(len(found) - 1) // 2])]
        spent, span = {str(op): float(s) for op, s in time_by_op(middle.trace).items()}, seconds(found)
    else:
        done = simulate(Point(point.dataset, point.model, TGL, quick), (solved if how == "simulated" else paced)(quick))
        spent, span = dict(done.seconds), done.epoch_s
    return {"shares": shares(spent), "seconds": by_part(spent), "epoch_s": span}


def compressing(dataset: str, rates: Rates, quick: bool) -> float:
    """Return the share of a simulated epoch of FAST, nothing fetched ahead, that is telling ids apart."""
    point = Point(dataset, "tgn", "fast", quick, ratio(dataset, "tgn", quick), 0)
    without = simulate(point, replace(rates, distinct=float("inf"))).epoch_s
    return 1 - without / simulate(point, rates).epoch_s


def ladder(point: StudyPoint) -> dict[str, Any]:
    """Return the epochs of each rung, a list a rung: simulated one, by what is assumed (`how`), or those executed with transfers held to
    `bus` bytes a second; and then the share of an epoch that compressing takes."""
    how, quick, name = point.setting("how"), point.setting("short"), point.dataset
    if how.startswith("executed"):
        one = replace(QUICK_LADDER if quick else LADDER, bus=point.setting("bus"))
        ran = passes(one)
        compress = timed(one, RUNGS[-1]).compress / seconds(ran[RUNGS[-1]]) if not one.bus else float("nan")
        return {
            "epochs": {rung: [each.trace.span_ns / 1e9 for each in ran[rung]] for rung in RUNGS},
            "median": {rung: seconds(ran[rung]) for rung in RUNGS},
            "compressing": compress,
        }
    rates = {"as planned": solved, "nothing fetched ahead": solved}.get(how, paced)(quick)
    if "operators" in how:
        rates = replace(rates, operators=OPERATORS, bound=BOUND)
    share, ahead = ratio(name, "tgn", quick), -1 if how == "as planned" else 0
    epochs = {rung: simulate(Point(name, "tgn", rung, quick, share * ("sc" in rung), ahead), rates).epoch_s for rung in RUNGS}
    return {"epochs": {rung: [span] for rung, span in epochs.items()}, "median": epochs, "compressing": float("nan")}
