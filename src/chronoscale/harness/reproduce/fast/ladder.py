"""Ladder: which threads sample alike, what compressing takes, and what each component is worth (Figure 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from chronoscale.batching.streams.sampling.redundancy import BATCH
from chronoscale.harness.reproduce.fast.cases import BOUND, OPERATORS
from chronoscale.harness.reproduce.fast.costs import Rates
from chronoscale.harness.reproduce.fast.executed import Executed, passes, seconds, timed
from chronoscale.harness.reproduce.fast.points import Point, ratio, simulate
from chronoscale.harness.reproduce.fast.rates import paced, solved
from chronoscale.harness.reproduce.fast.stand_ins import NAMES
from chronoscale.harness.reproduce.fast.threads import SAMPLED, THREADS, WITHOUT, alike, bound_here, of_pairs
from chronoscale.harness.study.findings import AGREES, NOT_PRINTED, SOLVED, UNKNOWN, Findings, Told, row
from chronoscale.reports.charts.heatmap import matrix
from chronoscale.reports.published import Range, published

RUNGS = ("fast-none", "fast-sc", "fast-sc-te", "fast-sc-te-ta")
GAINS = {"SlimCache": (0, 1), "thread-efficient operators": (1, 2), "topology-aware sampling": (2, 3)}
WHY = {  # of what is executed
    "thread-efficient operators": "printed is of a GPU's kernels; what a CPU gains is another thing",
    "topology-aware sampling": "printed is of two Xeons",
}
UNMEASURED = {  # of what is simulated, and not put in as printed
    "SlimCache": "rows of a cache are copied by the host at a rate solved for all strategies",
    "thread-efficient operators": "kernels and bytes of both kinds of operators are counted, how well each uses a device is not",
    "topology-aware sampling": "bound threads sample as fast as others, by assumption, as none was measured on such a machine",
}
BUSES = (0.0, 1e9)  # B/s that transfers are held to when executed; 0: none
EXECUTED = Executed("wikitalk", "tgn", RUNGS, 400_000, 5, 6, hidden=32)
QUICK = Executed("wikitalk", "tgn", RUNGS, 30_000, 1, 1, hidden=8)
QUICK_NAMES = ("lastfm", "wikitalk")


def rungs(dataset: str, rates: Rates, ahead: int, quick: bool) -> list[float]:
    """Simulated epochs of the ladder; seconds."""
    share = ratio(dataset, "tgn", quick)
    return [simulate(Point(dataset, "tgn", name, quick, share * ("sc" in name), ahead), rates).epoch_s for name in RUNGS]


def compressing(dataset: str, rates: Rates, quick: bool) -> float:
    """Share of a simulated epoch of FAST, nothing fetched ahead, that is telling ids apart."""
    point = Point(dataset, "tgn", "fast", quick, ratio(dataset, "tgn", quick), 0)
    without = simulate(point, replace(rates, distinct=float("inf"))).epoch_s
    return 1 - without / simulate(point, rates).epoch_s


def run(told: Told, quick: bool) -> Findings:
    """Affinity of threads, share of compressing, and the ladder: executed and simulated."""
    figure, names = published("fast").figures[11], QUICK_NAMES if quick else NAMES
    printed = {one.strategy: one for one in figure.ranges}
    told("affinity")
    near = alike(quick)
    note = bound_here(near[: EXECUTED.threads, : EXECUTED.threads])
    rows = [*of_pairs(near)]
    lines: list[dict[str, object]] = []
    share = {name: compressing(name, paced(quick), quick) for name in names}
    rows.append(
        row("compression engine, simulated, share of an epoch", printed["compression engine"], list(share.values()),
            f"on {', '.join(names)}: {', '.join(f'{s:.1%}' for s in share.values())}; ours tells 250 M ids a second apart, measured; "
            "how theirs does it is not printed")
    )  # fmt: skip
    for how, rates, ahead in ways(quick):
        found = {name: rungs(name, rates, ahead, quick) for name in names}
        lines += [{"how": how, "dataset": name, **dict(zip(RUNGS, epochs, strict=True))} for name, epochs in found.items()]
        rows += _gains(f"simulated, {how}", found, printed)
    for bus in BUSES[:1] if quick else BUSES:
        one = replace(QUICK if quick else EXECUTED, bus=bus)
        how = f"executed, transfers at {bus / 1e9:g} GB/s" if bus else "executed"
        told(how)
        ran = passes(one)
        done = {name: seconds(found) for name, found in ran.items()}
        lines.append({"how": how, "dataset": one.dataset, **done})
        epochs = {str(i): [ran[name][i].trace.span_ns / 1e9 for name in RUNGS] for i in range(one.epochs)}
        rows += _gains(how, epochs, printed, note if note.startswith(WITHOUT) else "")
        if not bus:
            spent = timed(one, "fast-sc-te-ta").compress / done["fast-sc-te-ta"]
            rows.append(row("compression engine, executed, share of an epoch", printed["compression engine"], [spent],
                            "a CPU computes for much longer than a GPU, so the share is small"))  # fmt: skip
    drawn = matrix(
        "fast-figure-11", "Affinity of sampling threads", "Stand-in of WikiTalk, mean Jaccard similarity of a batch. Counted.", near
    )
    tables = {"ladder": pd.DataFrame(lines), "affinity": pd.DataFrame(near)}
    return Findings(pd.DataFrame(rows), (drawn,), tables, said(quick, note))


def ways(quick: bool) -> Sequence[tuple[str, Rates, int]]:
    """Rates and batches that are fetched ahead."""
    return (
        ("as planned", solved(quick), -1),
        ("nothing fetched ahead", solved(quick), 0),
        ("nothing ahead, computing as slow as printed", paced(quick), 0),
        ("nothing ahead, operators and bound threads as printed", replace(paced(quick), operators=OPERATORS, bound=BOUND), 0),
    )


def _gains(how: str, found: Mapping[str, Sequence[float]], printed: Mapping[str, Range], unbound: str = "") -> list[dict[str, object]]:
    """A row a component, and one for all of them. unbound: why no thread was bound, so that there is no gain of that to be seen."""
    rows = []
    for what, (before, after) in GAINS.items():
        ours = [epochs[before] / epochs[after] for epochs in found.values()]
        theirs = printed.get(what)
        if unbound and what == "topology-aware sampling":
            rows.append(row(f"{what}, {how}", theirs, [], "not reached: no thread is bound on this machine (see the notes)"))
            continue
        rows.append(row(f"{what}, {how}", theirs, ours, NOT_PRINTED if theirs is None else _why(what, how, float(np.mean(ours)), theirs)))
    rows.append(row(f"all three, {how}", None, [epochs[0] / epochs[-1] for epochs in found.values()], "the printed is Table 4's"))
    return rows


def _why(what: str, how: str, ours: float, printed: Range) -> str:
    """In words."""
    if how.startswith("executed"):
        return WHY[what]
    if abs(ours / float(printed.mean or 1) - 1) <= AGREES:
        return f"within {AGREES:.0%}" + ("; its gain is put in" if "as printed" in how and "operators" in how else "")
    if "operators" in how:
        return f"its gain is put in, {SOLVED}; what is left of it hangs on the share of the epoch that it is of"
    if "as planned" in how:
        return "what is fetched ahead hides behind computing, and no GPU has run either kind of operators here"
    return f"{UNMEASURED[what]}; the rest {UNKNOWN}"


def said(quick: bool, note: str) -> tuple[str, ...]:
    """How it was made."""
    one = QUICK if quick else EXECUTED
    return (
        *((f"Quick: only {', '.join(QUICK_NAMES)}, fewer and narrower batches, transfers not held to any rate.",) if quick else ()),
        "Simulated on one A100 as in Table 4, TGN. Of both kinds of operators kernels and bytes are counted, not how well they use a "
        "device, and these are nearly the same; a gain is seen where the printed one is put in: "
        f"layers {OPERATORS:g} times as long before (Figures 2 and 9), bound threads {BOUND:g} times as fast (Figure 10).",
        f"Executed on this machine's CPU: TGN of width {one.hidden}, {one.batches} batches of {BATCH:,} spread over {one.events:,} "
        f"events of WikiTalk's stand-in, {one.threads} threads, all features cached; {one.epochs} epochs, rungs in turn, lowest, mean and "
        "highest of their ratios; the machine is shared and virtual.",
        note,
        f"Affinity: {THREADS} threads, roots alone (K = 0), means over {8 if quick else SAMPLED} batches; the diagonal, -1, is left out.",
    )
