"""Redundancy: match, repeat and unbalance rates of stand-ins (Table 1), and how their roots' degrees are distributed (Figure 3)."""

from __future__ import annotations

import pandas as pd

from chronoscale.batching.streams.sampling.redundancy import BATCH, FANOUT
from chronoscale.harness.reproduce.fast.stand_ins import NAMES, QUICK, Sampled, sampled
from chronoscale.harness.study.findings import NAN, Findings, Told, beside
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import Printed, published

POINTS = 3.0  # by which a stand-in may miss a rate that it is fitted to
READ = (
    f"Read as: batches of {BATCH:,} events, sources and destinations as roots, no negatives, one hop of the {FANOUT} most recent "
    "neighbours before the batch; ids are the neighbours, without the roots; pairs are a batch and the next; M of different ids; "
    "means over batches; degrees of all roots.",
    "Why so: of LastFM's 1,980 nodes two hops would repeat at 99 %, one hop of 6,000 roots (with negatives) at 95 % or more, and "
    "4,000 roots counted with their neighbours at 93.6 % only if every batch had every node, M then being 100 % and not 91.8. Edges "
    "of batches far apart cannot match at 20 to 47 %: recent ones have been replaced.",
    "Stand-ins are generated and fitted to the five rates (tools/fit_stand_ins.py): that these are met shows that stand-ins "
    "are as redundant as printed, and nothing of the originals, none of which is at hand.",
    f"Inconsistent in print: with D_max = {FANOUT} eq. 2 summed over degrees is ({FANOUT} - mean) / {FANOUT - 1}; that agrees with "
    "the printed mean degree for LastFM and Bitcoin, not for WikiTalk and GDELT. Were the mean over roots with a neighbour and the "
    "rate over all, 10 and 12.5 % of the roots there would have none.",
    f"Also: an exact sampler gives a node all {FANOUT} neighbours once it has had as many events. GDELT's 17 thousand nodes have 23 "
    "thousand ends of events each, LastFM's 1,300: their degrees must come near 10, not 7. Stand-ins have newcomers whose events "
    "come at once. For GDELT at full length even that does not do: its stand-in has a hundredth of the events.",
    "The published code samples an event from its source alone unless it is asked for both ends (its README prepares WikiTalk and Bitcoin "
    "so), and negatives among the roots: nodes that never send have no neighbours there, which may be why degrees are below 10. LastFM's "
    "would be 5, that of its users 10 and of its items 0, and not 6.83. Here events are sampled from both ends, as we train.",
    "Also: repeat rates of 91 and 73 % leave at most 27 % of what is moved, of 49 GB 13.2 and not 21 (Figure 8, WikiTalk); "
    "Bitcoin's 160 of 612 GB agree with 84 and 64 %.",
)


def table(told: Told, quick: bool) -> Findings:
    """Four data sets: seven numbers each, and what eq. 2 makes of the printed degree."""
    rows, missed, detail = [], [], []
    for line in published("fast").tables[1].rows:
        name = str(line["dataset"])
        told(name)
        one = sampled(name, quick)
        for what, ours in rates(one).items():
            theirs = float(line[what]) * 100
            rows.append(beside(f"{name}, {what.replace('_', ', ')}, %", theirs, ours * 100, one.part))
            if abs(theirs - ours * 100) > POINTS:
                missed.append(f"{name}, {what.replace('_', ', ')}")
        rows += degrees(name, float(line["degree"]), float(line["unbalance"]), one)
        detail.append({"dataset": name, "events": one.events, "of": one.whole, "nodes": one.nodes, "batches": one.batches})
    verdict = f"Missed by more than {POINTS:g} points: {'; '.join(missed)}." if missed else f"All rates are within {POINTS:g} points."
    said = (*shortened(quick), verdict, *READ)
    return Findings(pd.DataFrame(rows), (), {"scale": pd.DataFrame(detail)}, said)


def rates(one: Sampled) -> dict[str, float]:
    """By the names of the table's rows."""
    found = one.found
    shares = dict(zip(("match_node", "match_edge", "repeat_node", "repeat_edge"), (*found.match, *found.repeat), strict=True))
    return {**shares, "unbalance": found.unbalance}


def degrees(name: str, printed: float, unbalance: float, one: Sampled) -> list[dict[str, object]]:
    """Mean degree, over all roots and those that have a neighbour; and the rate that eq. 2 gives the printed mean."""
    by_mean = (FANOUT - printed) / (FANOUT - 1) * 100
    agrees = "agrees" if abs(by_mean - unbalance * 100) < 2 else "inconsistent in print"
    return [
        beside(f"{name}, mean degree", printed, one.found.degree, "over all roots, as the unbalance rate needs it"),
        beside(f"{name}, mean degree of roots with a neighbour", printed, one.found.degree_of_found, ""),
        beside(f"{name}, unbalance by eq. 2 of the printed mean degree, %", unbalance * 100, by_mean, f"printed numbers alone: {agrees}"),
    ]


def shortened(quick: bool) -> tuple[str, ...]:
    """That streams are shorter, if so."""
    return (f"Quick: the first {QUICK:,} events' worth of three stand-ins, and fewer batches.",) if quick else ()


def figure(told: Told, quick: bool) -> Findings:
    """Shares of the roots by degree."""
    printed: Printed = published("fast").figures[3]
    rows, series = [], {}
    for name in NAMES:
        told(name)
        one = sampled(name, quick)
        shares = one.found.distribution
        series[name] = (list(range(FANOUT + 1)), [float(share) * 100 for share in shares])
        for what, share in (("none", shares[0]), (f"1 to {FANOUT - 1}", shares[1:FANOUT].sum()), (str(FANOUT), shares[FANOUT])):
            rows.append(beside(f"{name}, roots of degree {what}, %", NAN, float(share) * 100, one.part or "the whole stand-in"))
    caption = f"Stand-ins, batches of {BATCH:,}, {FANOUT} most recent neighbours. Counted."
    drawn = lines("fast-figure-3", printed.title, caption, [Panel("", "degree of a root", "% of the roots", series)])
    said = (
        *shortened(quick),
        "Not comparable in shape: stand-ins are fitted to the unbalance rate, which is the mean of this distribution alone. With "
        f"few nodes and many events a root has none or {FANOUT} (LastFM, GDELT); where most nodes are young (WikiTalk, Bitcoin) "
        "degrees lie between, too.",
    )
    return Findings(pd.DataFrame(rows), (drawn,), {}, said)
