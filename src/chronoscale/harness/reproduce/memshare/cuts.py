"""Cuts: loads of eight partitions (Figure 2), and cut edges by the share of nodes that all parts have (Figure 3)."""

from __future__ import annotations

from functools import cache

import pandas as pd

from chronoscale.batching.streams.partitioning.divide import divide
from chronoscale.batching.streams.partitioning.quality import Division
from chronoscale.datasets.streams.events import EventStream
from chronoscale.harness.reproduce.memshare.stand_ins import CUT, QUICK, at_hand, batch, notes, stream
from chronoscale.harness.study.findings import NOT_PRINTED, UNKNOWN, Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published

PARTS, TRAINED = 8, 0.7
POLICIES = {"metis": "METIS", "distgl": "DisTGL", "shared-nodes": "ours"}
SHARES, QUICK_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3), (0.0, 0.05, 0.1)
EVEN = f"generated events come evenly, and no communities wake and sleep; else {UNKNOWN}"
LEAST = 20  # batches, where a real stream is short: its batches are then smaller


@cache
def division(stream: EventStream, policy: str, shared: float, size: int) -> Division:
    """Eight parts, hot nodes by what trains; once a process."""
    return Division.of(stream, divide(stream, PARTS, policy, shared, trained=int(TRAINED * len(stream))), size)


def size(name: str, stream: EventStream, divisor: int) -> int:
    """Events a part in a batch: the paper's, in step with the stand-in's size; of real data as many as make LEAST batches."""
    if divisor:
        return max(batch(name) // divisor, 50)
    return int(min(batch(name), len(stream) // (PARTS * LEAST)))


def loads(told: Told, quick: bool) -> Findings:
    """The largest load of a batch over the mean of the parts."""
    printed = published("memshare").figures[2].ranges[0]
    divisors = QUICK if quick else CUT
    real, absent = at_hand(told, quick)
    streams = {name: (stream(name, divisors[name]), divisors[name]) for name in ("stackof", "wikitalk")}
    rows, panels = [], []
    for name, (events, divisor) in {**streams, **{name: (found, 0) for name, found in real.items()}}.items():
        told(name)
        series = {}
        for policy, label in POLICIES.items():
            found = division(events, policy, 0.0, size(name, events, divisor))
            whole = found.loads[found.loads.sum(1) == found.loads[0].sum()]
            series[f"{label}, largest"] = (list(range(len(whole))), [float(value) for value in whole.max(1)])
            known = printed if (name, policy) == ("wikitalk", "distgl") else None
            why = f"{len(whole)} batches of {PARTS} x {size(name, events, divisor)} events; "
            rows.append(row(f"{name}, {label}, largest load over the mean", known, [float(v) for v in found.balance],
                             why + (EVEN if known else NOT_PRINTED)))  # fmt: skip
        series["average"] = (list(range(len(whole))), [float(value) for value in whole.mean(1)])
        panels.append(Panel(name, "batch", "events of a part", series))
    drawn = lines(
        "memshare-figure-2", "Loads of eight parts", "Largest load of a batch by partitioner, nothing shared. Counted.", panels[:3]
    )
    said = ("Nothing is shared. Printed is DisTGL's of WikiTalk (§1); that the largest load exceeds twice the average under METIS, too, "
            "stands in the plot.",)  # fmt: skip
    return Findings(pd.DataFrame(rows), (drawn,), {}, (*of_quick(quick), *said, *notes({name: divisors[name] for name in streams}, absent)))


def cuts(told: Told, quick: bool) -> Findings:
    """Share of events between parts."""
    printed = dict(zip((0.0, 0.1), published("memshare").figures[3].ranges, strict=True))
    divisors, shares = QUICK if quick else CUT, QUICK_SHARES if quick else SHARES
    real, absent = at_hand(told, quick)
    streams = {name: (stream(name, divisors[name]), divisors[name]) for name in ("gdelt", "stackof")}
    rows, panels = [], []
    for name, (events, divisor) in {**streams, **{name: (found, 0) for name, found in real.items()}}.items():
        told(name)
        series = {}
        for policy, label in POLICIES.items():
            found = [division(events, policy, share, size(name, events, divisor)).cut_ratio for share in shares]
            series[label] = (list(shares), found)
            for share, cut in zip(shares, found, strict=True):
                known = printed.get(share) if (name, policy) == ("gdelt", "metis") else None
                why = "the stand-in has no communities to keep together" if known and not share else by_heat(known is not None)
                rows.append(row(f"{name}, {label}, {share:g} shared, cut", known, [cut], why))
        panels.append(Panel(name, "share of the nodes that all parts have", "share of events cut", series))
    drawn = lines("memshare-figure-3", "Cut edges over shared nodes", "Eight parts, by partitioner. Counted.", panels[:3])
    said = ("An event is cut where its ends have different parts and neither is shared. Drawings (a) and (b), 9 and 4 cut edges, are "
            "of an example that is not given in numbers.",)  # fmt: skip
    return Findings(pd.DataFrame(rows), (drawn,), {}, (*of_quick(quick), *said, *notes({name: divisors[name] for name in streams}, absent)))


def by_heat(known: bool) -> str:
    """Why a cut with shared nodes differs."""
    return f"how many ends the hottest tenth of GDELT has is not printed; {UNKNOWN}" if known else NOT_PRINTED


def of_quick(quick: bool) -> tuple[str, ...]:
    """That this is not all, if so."""
    return ("Quick: smaller stand-ins, one real stream, fewer shares.",) if quick else ()
