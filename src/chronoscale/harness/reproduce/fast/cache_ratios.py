"""Cache ratios: bytes and seconds of memory I/O as the cache grows, for three strategies (Figure 8a)."""

from __future__ import annotations

import pandas as pd

from chronoscale.batching.streams.caching.loading import RowFrequencies
from chronoscale.batching.streams.sampling.redundancy import BATCH
from chronoscale.harness.reproduce.fast.volumes import GIB, PRESAMPLE, RATIO
from chronoscale.harness.study.findings import NAN, beside
from chronoscale.harness.study.hooks.fast_epochs import SAMPLING, Epoch
from chronoscale.harness.study.hooks.fast_host import Rates
from chronoscale.harness.study.hooks.fast_traffic import loading, traffic
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published

RIVALS = ("taser", "simple", "fast")
RATIOS = tuple(n / 10 for n in range(11))
CURVE, CURVE_EVENTS = "wikitalk", 1_000_000  # SIMPLE holds an epoch's batches and looks at its whole cache after each


def curve(one: Epoch, speeds: Rates) -> pd.DataFrame:
    """(a): a row a strategy and ratio."""
    seen: RowFrequencies = one.data.row_frequencies(1, BATCH, SAMPLING, 0, PRESAMPLE)
    ways = {f"{name} {ratio:g}": loading(name, ratio, one.width) for name in RIVALS for ratio in RATIOS}
    sent = traffic(one, ways, seen)
    points = [(name, ratio, sent[f"{name} {ratio:g}"]) for name in RIVALS for ratio in RATIOS]
    return pd.DataFrame(
        {"strategy": name, "ratio": ratio, "GiB": found.bytes / GIB, "seconds": speeds.seconds(found),
         "of it compressing, s": found.compressed / speeds.look, "events": len(one.data.whole.stream), "batches": one.deal.iterations}
        for name, ratio, found in points
    )  # fmt: skip


def verdicts(points: pd.DataFrame) -> list[dict[str, object]]:
    """What the text of §6.3 says of (a): 3.0 times without a cache, behind TASER at 0.8, compression off at 1."""
    at = {(str(line["strategy"]), float(line["ratio"])): line for line in points.to_dict("records")}

    def over(what: str, ratio: float, rival: str) -> float:
        theirs, ours = float(at[rival, ratio][what]), float(at["fast", ratio][what])
        return theirs / ours if ours else NAN

    events = f"{int(points['events'].iloc[0]):,} events of {CURVE}"
    three = next(line.mean for line in published("fast").figures[8].ranges if line.strategy == f"fast, no cache, {CURVE}")
    compressing = float(at["fast", 0.8]["of it compressing, s"] / at["fast", 0.8]["seconds"])
    rows = [beside("(a) no cache, taser's seconds over fast's", three or NAN, over("seconds", 0.0, "taser"), events)]
    slower = over("seconds", 0.8, "taser")
    lost = "fast loses, as printed" if slower < 1 else "fast does not lose, as it is printed to"
    why = f"{lost}: below 1; compressing is {compressing:.0%} of its time"
    rows.append(beside("(a) ratio 0.8, taser's seconds over fast's", NAN, slower, why))
    rows.append(beside("(a) ratio 0.8, taser's bytes over fast's", NAN, over("GiB", 0.8, "taser"), "a row a slot against a row a batch"))
    for ratio in (RATIO, 0.8):
        why = "below 1: a cache that changes, its rows chosen best, saves more than compression" if over("GiB", ratio, "simple") < 1 else ""
        rows.append(beside(f"(a) ratio {ratio:g}, simple's bytes over fast's", NAN, over("GiB", ratio, "simple"), why))
    for ratio in (0.9, 1.0):
        off = float(at["fast", ratio]["of it compressing, s"])
        rows.append(
            beside(f"(a) ratio {ratio:g}, fast's seconds of compressing", NAN, off, "switched off where all rows are there" * (ratio == 1))
        )
    return rows


def drawn(points: pd.DataFrame, title: str) -> Drawing:
    """(a)."""
    by = dict(iter(points.groupby("strategy", sort=False)))
    panels = [
        Panel(
            "",
            "share of features in the cache",
            what,
            {str(name): (part["ratio"].tolist(), part[what].tolist()) for name, part in by.items()},
        )
        for what in ("GiB", "seconds")
    ]
    return lines("fast-figure-8", title, f"{CURVE}'s stand-in, an epoch. Bytes counted, seconds modelled.", panels)
