"""Solved: the rates of the paper's host, from what it prints of TGL and SIMPLE."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from chronoscale.harness.study.hooks.fast_costs import Rates
from chronoscale.harness.study.hooks.fast_points import TGL, Point, iterations, schedule_of, simulate
from chronoscale.reports.published import published
from chronoscale.strategies.schedule import Op

ANCHOR = ("wikitalk", "tgat")  # TGL's epoch that the rate of gathering is solved from
PROBED = (2e9, 4e9)  # B/s
PEAKS = (0.3, 0.15)  # shares of peak


def seconds(dataset: str, model: str, strategy: str) -> float:
    """An epoch as Table 4 prints it; NaN for one that is not there or ran out of memory."""
    wanted = (dataset, model, strategy)
    rows = published("fast").tables[4].rows
    return next((float(r.get("seconds", "nan")) for r in rows if (r["dataset"], r["model"], r["strategy"]) == wanted), float("nan"))


def filled(dataset: str, quick: bool) -> float:
    """Neighbours that are sampled for an epoch of the paper's length, two hops of the most recent ones."""
    schedule = schedule_of(Point(dataset, "tgat", TGL, quick))
    return float(schedule.edges[schedule.op == Op.SAMPLE].sum()) * iterations(dataset) / schedule.iterations


@cache
def solved(quick: bool) -> Rates:
    """sample: all of Bitcoin's epoch in the time of SIMPLE's pre-sampling (Table 6). gather: TGL's epoch of the anchor is as printed."""
    before = next(float(r["prepare_s"]) for r in published("fast").tables[6].rows if r["strategy"] == "simple")
    return _gathering(Rates(filled("bitcoin", quick) / before, PROBED[0]), quick)


@cache
def paced(quick: bool) -> Rates:
    """Also the share of peak that kernels reach: FAST's epoch of the anchor, whose features all lie on the device, is as printed where
    nothing is fetched ahead, as in TGL; it is linear in the inverse share."""
    whole = Point(*ANCHOR, "fast", quick, ratio=1.0, ahead=0)
    first = solved(quick)
    little, less = (simulate(whole, replace(first, efficiency=share)).epoch_s for share in PEAKS)
    work = (less - little) / (1 / PEAKS[1] - 1 / PEAKS[0])  # seconds at peak
    share = work / (seconds(*ANCHOR, "fast") - little + work / PEAKS[0])
    return _gathering(replace(first, efficiency=share), quick)


def _gathering(rates: Rates, quick: bool) -> Rates:
    """With the rate of gathering by which TGL's epoch of the anchor is as printed: as nothing overlaps, it is linear in a byte's time."""
    slow, fast = (simulate(Point(*ANCHOR, TGL, quick), replace(rates, gather=rate)).epoch_s for rate in PROBED)
    moved = (slow - fast) / (1 / PROBED[0] - 1 / PROBED[1])  # bytes of an epoch
    return replace(rates, gather=moved / (seconds(*ANCHOR, "tgl") - slow + moved / PROBED[0]))
