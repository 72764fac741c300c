"""Dimensions: what a strategy's own schedule says of Table 1."""

from __future__ import annotations

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.reproduce import notes
from chronoscale.harness.reproduce.real import grid
from chronoscale.harness.reproduce.study import Findings, Told
from chronoscale.reports.published import published
from chronoscale.strategies.evaluation.metrics import imbalance
from chronoscale.strategies.registry import STRATEGIES
from chronoscale.strategies.schedule import COLLECTIVES, Op, Schedule
from chronoscale.strategies.trace import Trace

DATASET, MODEL = "stackoverflow", "wd-gcn"
LEFT_OUT = {"dgc": "it moves boundary features and hidden states alike by ALLTOALL rows, which the rules below cannot part"}
BALANCED = 1.05  # busiest over least busy GPU
BESIDE = 0.05  # share of busy time with two lanes of a GPU at work

HOW = {
    "no_neighbour_transfer": "no ALLTOALL and no ALLGATHER row",
    "no_hidden_transfer": "no SEND row",
    "no_extra_h2d": "H2D bytes at most psg's and a hundredth",
    "parallel_resources": f"two lanes of a GPU at work in over {BESIDE:.0%} of its busy time",
    "load_balance": f"busiest GPU at most {BALANCED} times the least busy one's work",
    "topology_reuse": "INCREMENT rows, or fewer AGGREGATE edges than psg",
}


def beside(trace: Trace) -> float:
    """Share of busy time in which a rank has two or more lanes at work, collectives apart."""
    work = ~np.isin(trace.op, [int(op) for op in COLLECTIVES])
    total = both = 0.0
    for rank in range(trace.ranks):
        here = work & (trace.rank == rank)
        time = np.concatenate([trace.start_ns[here], trace.end_ns[here]])
        step = np.repeat([1, -1], int(here.sum()))
        order = np.lexsort((step, time))
        depth, spans = np.cumsum(step[order])[:-1], np.diff(time[order])
        total, both = total + float(spans[depth > 0].sum()), both + float(spans[depth > 1].sum())
    return both / total if total else 0.0


def derived(schedule: Schedule, trace: Trace, base: Schedule) -> dict[str, tuple[bool, float]]:
    """Each dimension: holds or not, and the number it was read off."""
    rows = {op: int((schedule.op == op).sum()) for op in (Op.ALLTOALL, Op.ALLGATHER, Op.SEND, Op.INCREMENT)}
    moved = float(schedule.bytes[schedule.op == Op.H2D].sum()) / float(base.bytes[base.op == Op.H2D].sum())
    convolved = float(schedule.edges[schedule.op == Op.AGGREGATE].sum()) / float(base.edges[base.op == Op.AGGREGATE].sum())
    lanes, spread = beside(trace), imbalance(trace)
    exchanged = rows[Op.ALLTOALL] + rows[Op.ALLGATHER]
    return {
        "no_neighbour_transfer": (exchanged == 0, exchanged),
        "no_hidden_transfer": (rows[Op.SEND] == 0, rows[Op.SEND]),
        "no_extra_h2d": (moved <= 1.01, moved),
        "parallel_resources": (lanes > BESIDE, lanes),
        "load_balance": (spread <= BALANCED, spread),
        "topology_reuse": (rows[Op.INCREMENT] > 0 or convolved < 0.99, convolved),
    }


def run(told: Told, quick: bool) -> Findings:
    """Published ticks beside what schedules and simulated traces say, on Stackoverflow's stand-in, 8 GPUs."""
    base, _ = grid.replayed(grid.Point(DATASET, MODEL, 1, "psg"))
    rows, refused, plans = [], [], []
    printed = published("real").tables[1].rows
    for line in printed[:2] if quick else printed:
        name = str(line["strategy"])
        if name not in STRATEGIES or name in LEFT_OUT:
            continue
        told(name)
        try:
            schedule, trace = grid.replayed(
                grid.Point(DATASET, MODEL, 1, name, variant="as-published" if name.startswith("real-") else "exact")
            )
        except UserError as error:
            refused.append(f"{name}: {error}")
            continue
        plans.append({"strategy": name, "note": schedule.note, "gap": schedule.gap})
        for dimension, (holds, value) in derived(schedule, trace, base).items():
            same = holds is line[dimension]
            rows.append(
                {
                    "what": f"{name}, {dimension.replace('_', ' ')}",
                    "published": "yes" if line[dimension] else "no",
                    "ours": "yes" if holds else "no",
                }
                | {"read off": value, "why": "" if same else WHY.get((name, dimension), "not established")}
            )
    said: tuple[str, ...] = ("Quick: two systems.",) if quick else ()
    said += (*(f"{dimension.replace('_', ' ')}: {how}." for dimension, how in HOW.items()), "Simulated times, where times are asked for.")
    if absent := [str(line["strategy"]) for line in printed if line["strategy"] not in STRATEGIES]:
        said += (f"Not among our strategies: {', '.join(absent)}.",)
    said += notes.unsolved(pd.DataFrame(plans))
    said += tuple(f"{name} is left out: {reason}." for name, reason in LEFT_OUT.items())
    frame = pd.DataFrame(rows, columns=["what", "published", "ours", "read off", "why"])
    return Findings(frame, (), {}, (*said, *refused))


WHY: dict[tuple[str, str], str] = {
    ("distdgl", "load_balance"): "METIS balances nodes; the edges that end in a part differ on this skewed stand-in",
    (
        "blad",
        "load_balance",
    ): "groups that are neighbours in time are alike in size on the stand-in, so pairs dealt in order balance within 5 %",
    ("esdg", "load_balance"): "consecutive snapshots of the stand-in are nearly equal in size; waiting for hidden states is not work",
}
