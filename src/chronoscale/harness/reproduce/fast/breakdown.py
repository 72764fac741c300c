"""Breakdown: sampling, memory I/O and computing of TGAT and TGN on WikiTalk, simulated and executed (Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from chronoscale.harness.reproduce.fast.costs import Rates
from chronoscale.harness.reproduce.fast.executed import Executed, passes, seconds
from chronoscale.harness.reproduce.fast.points import TGL, Point, simulate
from chronoscale.harness.reproduce.fast.rates import paced, solved
from chronoscale.harness.study.findings import AGREES, NOT_PRINTED, SOLVED, Findings, Told, row
from chronoscale.reports.charts.stacks import stacks
from chronoscale.reports.published import published
from chronoscale.strategies.evaluation.metrics import time_by_op
from chronoscale.strategies.schedule import Op

PARTS: Mapping[str, tuple[Op, ...]] = {
    "sampling": (Op.SAMPLE,),
    "memory I/O": (Op.GATHER, Op.H2D, Op.D2H, Op.MEMORY_READ, Op.MEMORY_WRITE, Op.COPY),
    "computing": (Op.MEMORY_UPDATE, Op.AGGREGATE, Op.FORWARD, Op.BACKWARD, Op.OPTIMIZE),
}
EVENTS, BATCHES, EPOCHS = 400_000, 4, 3  # of what is executed
QUICK_EVENTS, QUICK_HIDDEN = 60_000, 16


def shares(spent: Mapping[str, float]) -> dict[str, float]:
    """Of the parts of an epoch in which nothing overlaps, from seconds by operation. They add up to 1."""
    found = {part: sum(spent.get(op.name, 0.0) for op in ops) for part, ops in PARTS.items()}
    return {part: share / sum(found.values()) for part, share in found.items()}


def executed(model: str, quick: bool) -> Executed:
    """TGL on a part of WikiTalk's stand-in; quick: one epoch of two batches, a narrow model."""
    if quick:
        return Executed("wikitalk", model, (TGL,), QUICK_EVENTS, 2, 1, hidden=QUICK_HIDDEN)
    return Executed("wikitalk", model, (TGL,), EVENTS, BATCHES, EPOCHS)


def run(told: Told, quick: bool) -> Findings:
    """Shares of an epoch: with solved rates, with computing as slow as the paper's, and on this machine."""
    printed = published("fast").figures[1]
    rows, panels, details = list[dict[str, object]](), dict[str, dict[str, list[float]]](), list[dict[str, object]]()
    io: dict[str, list[float]] = {}
    for model in ("tgat", "tgn"):
        told(model)
        ways: dict[str, dict[str, float]] = {}
        for how, rates in (("simulated", solved(quick)), ("simulated, computing as slow as printed", paced(quick))):
            one = _simulated(model, rates, quick)
            ways[how] = shares(one)
            details.append({"model": model, "how": how, **{part: sum(one.get(op.name, 0.0) for op in ops) for part, ops in PARTS.items()}})
        told(f"{model}, executed")
        found = passes(executed(model, quick))[TGL]
        middle = found[int(np.argsort([one.trace.span_ns for one in found], kind="stable")[(len(found) - 1) // 2])]
        spent = {str(op): float(s) for op, s in time_by_op(middle.trace).items()}
        ways["executed here"] = shares(spent)
        details.append({"model": model, "how": f"executed here, epoch {seconds(found):.2f} s"}
                       | {part: sum(spent.get(op.name, 0.0) for op in ops) for part, ops in PARTS.items()})  # fmt: skip
        panels[model] = {how: [found * 100 for found in parts.values()] for how, parts in ways.items()}
        for how, parts in ways.items():
            io.setdefault(how, []).append(parts["memory I/O"])
            for part in ("sampling", "computing"):
                rows.append(row(f"{model}, {how}, share of {part}", None, [parts[part]], NOT_PRINTED))
    for how, values in io.items():
        high = max(values) / float(printed.ranges[0].high or 1)
        why = f"within {AGREES:.0%}" if abs(high - 1) <= AGREES else WHY[how]
        rows.insert(0, row(f"memory I/O, {how}, share", printed.ranges[0], values, why))
    caption = (
        "TGL as released, nothing overlaps. Simulated on one A100; executed on this machine's CPU, which has no bus and computes slowly."
    )
    drawn = stacks("fast-figure-1", printed.title, caption, "% of an epoch", tuple(PARTS), panels)
    return Findings(pd.DataFrame(rows), (drawn,), {"seconds": pd.DataFrame(details)}, said(quick))


WHY = {
    "simulated": "our computing is too fast, a datasheet's 60 %: with it as slow as FAST's printed epoch the share falls, see there",
    "simulated, computing as slow as printed": f"{SOLVED} of TGAT; of TGN it follows",
    "executed here": "a CPU computes for tens of times as long as an A100, and its copies stay in its memory: not comparable",
}


def _simulated(model: str, rates: Rates, quick: bool) -> Mapping[str, float]:
    return simulate(Point("wikitalk", model, TGL, quick), rates).seconds


def said(quick: bool) -> tuple[str, ...]:
    """What stands for what."""
    first = ("Quick: fewer and shorter batches, one epoch, a model of width 16 executed.",) if quick else ()
    one, other = solved(quick), paced(quick)
    return (
        *first,
        "Simulated on one A100 of 40 GB, the stand-in of WikiTalk, as in Table 4. Memory I/O is gathering, the bus, and reading and "
        "writing "
        "node memory.",
        f"Rates are {SOLVED}, from TGL's epoch of TGAT (Table 4): {one.gather / 1e9:.2f} GB/s of scattered rows; with computing as "
        f"slow as FAST's "
        f"({other.efficiency:.1%} of peak) {other.gather / 1e9:.2f} GB/s. So TGAT's whole epoch is as printed; how it divides is "
        f"not put in.",
        "Executed: TGL's rows on the CPU, float32, two layers of width 100, four batches spread over a part of the stand-in "
        f"({EVENTS:,} events), the median of {EPOCHS} epochs.",
    )
