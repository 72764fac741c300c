"""REAL: speed-ups cell by cell over a grid, and what a schedule and its trace say of transfers, lanes and GPUs at work."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from chronoscale.harness.study.findings import AGREES, ASIDE, NOT_PRINTED, UNKNOWN, by_copies, row
from chronoscale.harness.study.hooks.common import ABSENT
from chronoscale.harness.study.hooks.real_solver import settled
from chronoscale.harness.study.point import Points
from chronoscale.harness.study.replay import Replayed
from chronoscale.reports.charts.heatmap import Heat
from chronoscale.reports.published import Range
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import COLLECTIVES, Op
from chronoscale.strategies.trace import Trace

EXACT = "real-l"  # the one strategy that is also shown with exact maps
CELL = ["dataset", "model", "layers"]
HALO = "the paper counts GraphConv on imported halo vertices, too; our DistDGL convolves a part's own rows alone"
FREE = "host copies free"  # what further rows of Figures 8, 13 and 2 assume
SAID = {"esdg": "hidden states", "distdgl": "neighbours", "blad": "CPU-GPU"}  # what §7.2.2 names as a strategy's dominant transfer
BETWEEN = ("neighbours", "hidden states")  # of data between GPUs, of which REAL has none
Why = Callable[[Range, str, float], str]  # of a printed range, a variant and our ratio to what is printed


def ratios(points: Points, fast: str, slow: str, variant: str, layers: int | None, metric: str = "epoch_s") -> pd.Series[float]:
    """Return speed-ups of strategy `fast` over `slow`, indexed by (dataset, model, layers) that both ran, for REAL's Figures 8 and 11.

    metric: what is divided, slow's over fast's. variant: 'as-published' or 'exact' maps, where strategies have them. layers: None: all.
    """
    frame = points.table()
    ran = frame[frame["status"].eq("ran") if metric == "epoch_s" else frame["status"].ne("refused")]
    if layers is not None:
        ran = ran[ran["layers"] == layers]
    chosen = ran["variant"].eq(variant) | ~ran["strategy"].str.startswith("real-")
    of = {name: ran[ran["strategy"].eq(name) & chosen].set_index(CELL)[metric] for name in (fast, slow)}
    return (of[slow] / of[fast]).dropna()


def compared(
    points: Points,
    printed: Sequence[Range],
    why: Why,
    metric: str = "epoch_s",
    variants: Sequence[str] = ("as-published", "exact"),
    suffix: str = "",
    assumed: str = "",
) -> list[dict[str, object]]:
    """Return the rows of REAL's Figures 8 and 11: each printed range beside our speed-ups, by variant of the difference maps.

    Then rivals of `real-g+-own`, without a printed range. Columns: `what`, published_ and ours_ low, mean, high, `points`, `ratio`, `why`.
    why: gives a row's reason. metric: what is divided. suffix: ends a row's label. assumed: what the points
    assume otherwise, said in the label, too; such rows and those of exact maps are not scored.
    """
    rows = []
    extra = [Range(strategy="real-g+-own", over=r.over, layers=r.layers, gpus=r.gpus, low=1) for r in printed if r.strategy == EXACT]
    for variant in variants:
        for one in [*printed, *extra]:
            ours = ratios(points, one.strategy, one.over, variant, one.layers, metric)
            if (variant == "exact" and one.strategy != EXACT) or (one in extra and not len(ours)):
                continue
            depth = f", {one.layers} layer{'s' * (one.layers > 1)}" if one.layers else ""
            theirs = None if one in extra else one
            label = f"{one.strategy} over {one.over}{depth}, {variant} maps{suffix}{_after(assumed)}"
            line = row(label, theirs, ours.tolist(), NOT_PRINTED) | _aside(variant, assumed)
            if theirs:
                line["why"] = why(one, variant, float(str(line["ratio"]))) if len(ours) else ABSENT
            plans = points.where(strategy=one.strategy, variant=variant)
            line["why"] = settled(str(line["why"]), plans.where(layers=one.layers) if one.layers else plans)
            rows.append(line)
    return rows


def _after(assumed: str) -> str:
    """What a row assumes otherwise, as its label ends with it."""
    return f", {assumed}" if assumed else ""


def _aside(variant: str, assumed: str) -> dict[str, str]:
    """Why a row is not scored: the paper's maps are not exact, and its host copies take time."""
    reason = ", ".join(filter(None, ("exact maps" * (variant == "exact"), assumed)))
    return {ASIDE: reason} if reason else {}


def freed(free: Points) -> Why:
    """Return the function that says whether host copies explain a difference, the reasons of rows in REAL's Figures 8 and 13.

    It takes (printed range, variant, our ratio to it). free: as-published points, simulated with free host copies.
    """

    def why(one: Range, variant: str, ratio: float) -> str:
        known = len(free) and variant == "as-published"
        ours = ratios(free, one.strategy, one.over, variant, one.layers).tolist() if known else []
        return by_copies(ratio, float(str(row("", one, ours, "")["ratio"])))

    return why


def exchanged(points: Points) -> Why:
    """Return the function that says what share of a rival's epoch is exchange of neighbours, the reasons of rows in REAL's Figure 8.

    It takes (printed range, variant, our ratio to it). points: with metric `neighbours`, seconds summed over GPUs.
    """

    def why(one: Range, variant: str, ratio: float) -> str:
        rival = points.where(strategy=one.over, status="ran")
        rival = rival.where(layers=one.layers) if one.layers else rival
        share = np.mean([p["neighbours"] / p.gpus / p.epoch_s for p in rival])
        return f"{share:.0%} of our {one.over}'s epoch are all-to-all exchanges; why ours differs is {UNKNOWN}"

    return why


def nowhere() -> Why:
    """Return the function that says of each row that the paper prints no number, the reasons of rows in REAL's Figure 8."""
    return lambda one, variant, ratio: NOT_PRINTED


def increments(points: Points) -> Why:
    """Return the function that says what share of GraphConv's rows are increments (differences to the last snapshot), for REAL's Figure 11.

    It takes (printed range, variant, our ratio to it), and gives a row's reason. points: with metric `increments`, that share.
    """

    def why(one: Range, variant: str, ratio: float) -> str:
        if abs(ratio - 1) <= AGREES:
            return f"within {AGREES:.0%}"
        ours = [p.increments for p in points.where(strategy=one.strategy, variant=variant) if p.status != "refused"]
        reason = f"{np.mean(ours):.0%} of its GraphConv rows are increments, the others sum in full"
        return f"{reason}; {HALO if one.over == 'distdgl' and ratio < 1 else f'why ours differs is {UNKNOWN}'}"

    return why


def ablation(points: Points, free: Points, printed: Sequence[Range], steps: Sequence[str]) -> list[dict[str, object]]:
    """Return the rows of REAL's Figure 13: the speed-up over PSG (snapshot groups dealt to ranks) with each part of REAL.

    free: the points simulated with free host copies, which get rows, too. steps: strategies, each a part more than the one before.
    """
    known, rows = {one.strategy: one for one in printed}, []
    for table, variant in ((points, "as-published"), (points, "exact"), (free, "as-published")):
        why = freed(free if table is points else free[:0])
        for strategy in steps if variant != "exact" else (EXACT,):
            ours = ratios(table, strategy, "psg", variant, None).tolist()
            theirs = known.get(strategy)
            if ours or theirs:
                assumed = FREE if table is free else ""
                line = row(f"{strategy} over psg, {variant} maps{_after(assumed)}", theirs, ours, NOT_PRINTED) | _aside(variant, assumed)
                if theirs:
                    line["why"] = why(theirs, variant, float(str(line["ratio"]))) if ours else ABSENT
                line["why"] = settled(str(line["why"]), table.where(strategy=strategy, variant=variant))
                rows.append(line)
    return rows


def cells(points: Points, base: str) -> dict[str, dict[str, list[float]]]:
    """Return how many times as fast as strategy `base` each strategy is, by depth, for the drawings of REAL's Figures 8 and 13.

    Title of the depth -> strategy -> a number for each of `shown_cells`: inf where it ran out of memory, NaN where it or `base` is missing.
    """
    shown = [p for p in points if (p.variant == "as-published" or not p.strategy.startswith("real-")) and p.status != "refused"]
    keys, panels = list(dict.fromkeys((p.dataset, p.model) for p in shown)), {}
    for depth in sorted({p.layers for p in shown}):
        part = [p for p in shown if p.layers == depth]
        known = {(p.strategy, p.dataset, p.model): p for p in part}

        def times(strategy: str, key: tuple[str, str], known: Mapping[Any, Any] = known) -> float:
            own, other = known.get((strategy, *key)), known.get((base, *key))
            if own is not None and own.status == "out of memory":
                return np.inf
            return float(other.epoch_s / own.epoch_s) if own is not None and other is not None else np.nan

        title = f"{depth} layer{'s' * (depth > 1)}"
        panels[title] = {name: [times(name, key) for key in keys] for name in dict.fromkeys(p.strategy for p in part)}
    return panels


def shown_cells(points: Points) -> list[str]:
    """Return the labels 'dataset, model' of what `cells` gives numbers for, for drawings of REAL's Figures 8 and 13."""
    return list(dict.fromkeys(f"{p.dataset}, {p.model}" for p in points if p.status != "refused"))


def verdict(strategy: str, share: Mapping[str, float]) -> str:
    """Return in words whether our largest kind of transfer is what REAL's §7.2.2 names for a strategy, the reason of a row in Figure 10.

    share: kind -> its share of the time of transfers.
    """
    if strategy.startswith("real-"):
        return "agrees: no data between GPUs but gradients" if not any(share[kind] for kind in BETWEEN) else "differs: data between GPUs"
    if strategy not in SAID:
        return NOT_PRINTED
    largest, reason = max(share, key=lambda kind: share[kind]), SAID[strategy]
    if largest == reason:
        return f"agrees: most is {reason}"
    between = max(BETWEEN, key=lambda kind: share[kind])
    part = f" (between GPUs it is {reason})" if between == reason and share[reason] else ""
    return f"differs: in the paper most is {reason}, here {largest}{part}; why is {UNKNOWN}"


def transfers(points: Points, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of REAL's Figure 10, one a strategy: mean seconds of transfer a GPU, and whether the paper agrees.

    Columns: `what`, `published`, `mean transfer s`, a share a kind, `largest`, `why`. kinds: metrics of `points`, such as 'CPU-GPU'.
    """
    table, rows = seconds_a_gpu(points, kinds), list[dict[str, Any]]()
    for name, part in table.groupby("strategy", sort=False):
        share = part[kinds].div(part[kinds].sum(axis=1), axis=0).mean()
        why = settled(verdict(str(name), {kind: float(share[kind]) for kind in kinds}), points.where(strategy=name, status="ran"))
        mean = float(part[kinds].sum(axis=1).mean())
        shares = {kind: float(share[kind]) for kind in kinds}
        line = {"what": name, "published": "plot only", "mean transfer s": mean, **shares}
        rows.append(line | {"largest": str(share.idxmax()), "why": why})
    return rows


def seconds_a_gpu(points: Points, kinds: Sequence[str]) -> pd.DataFrame:
    """Return simulated seconds of transfer an epoch by kind, mean of GPUs, a row for each point that ran, for REAL's Figure 10.

    Columns: dataset, model, strategy, gpus, and those of `kinds`.
    """
    ran = points.where(status="ran").table("dataset", "model", "strategy", "gpus", *kinds)
    return ran.assign(**{kind: ran[kind] / ran["gpus"] for kind in kinds})


def forward_shares(replayed: Replayed) -> tuple[float, float]:
    """Return the shares of simulated forward passes in transfers between GPUs, and in these and waiting together, for REAL's Figure 2.

    A rank's forward pass of an iteration lasts from its first start to the start of its first BACKWARD. Transfers are those that no
    computing hides; waiting is what neither computes nor copies from the host.
    """
    schedule, trace = replayed.schedule, replayed.trace
    site = trace.rank.astype(np.int64) * max(schedule.iterations, 1) + schedule.iteration[trace.task]
    sites = schedule.ranks * max(schedule.iterations, 1)
    begin, end = np.full(sites, np.iinfo(np.int64).max), np.full(sites, np.iinfo(np.int64).max)
    np.minimum.at(begin, site, trace.start_ns)
    back = trace.op == Op.BACKWARD
    np.minimum.at(end, site[back], trace.start_ns[back])
    known = (begin < end) & (end < np.iinfo(np.int64).max)
    together = np.isin(trace.op, [int(op) for op in COLLECTIVES])
    inside = known[site] & (trace.start_ns < end[site])
    moving = _covered(trace, inside & together, site, sites)
    working = _covered(trace, inside & ~together, site, sites)
    either = _covered(trace, inside, site, sites)
    total = float((end - begin)[known].sum())
    bare = float((either - working)[known].sum())  # transfers that nothing hides
    return (min(bare, float(moving[known].sum())) / total, 1 - float(working[known].sum()) / total) if total else (0.0, 0.0)


def _covered(
    trace: Trace, where: np.ndarray[tuple[int], np.dtype[np.bool_]], site: np.ndarray[tuple[int], np.dtype[np.int64]], sites: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Length of the union of intervals, by site."""
    place, start, end = site[where], trace.start_ns[where], trace.end_ns[where]
    order = np.lexsort((start, place))
    place, start, end = place[order], start[order], end[order]
    covered = np.zeros(sites, np.int64)
    if len(place):
        offset = place * (int(end.max()) - int(start.min()) + 1)
        before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end + offset)[:-1]])
        np.add.at(covered, place, np.maximum(end + offset - np.maximum(start + offset, before), 0))
    return covered


def busy_shares(trace: Trace, bins: int, until_ns: int) -> Floats:
    """Return what share of each time bin a GPU computes, float64 [ranks, bins], for the heat maps of REAL's Figure 12.

    until_ns: where the last bin ends. A GPU computes where any of its lanes does; transfers and waiting are idle.
    """
    idle = [int(op) for op in (*COLLECTIVES, Op.H2D, Op.D2H)]
    work = ~np.isin(trace.op, idle) & (trace.start_ns < until_ns)
    edges = np.linspace(0, until_ns, bins + 1)
    share = np.zeros((trace.ranks, bins))
    for rank in range(trace.ranks):
        here = work & (trace.rank == rank)
        start, end = trace.start_ns[here], np.minimum(trace.end_ns[here], until_ns)
        order = np.argsort(start, kind="stable")
        start, end = start[order], np.maximum.accumulate(end[order])
        fresh = np.maximum(start, np.concatenate([[0], end[:-1]]))
        below = np.array([np.clip(edge - fresh, 0, np.maximum(end - fresh, 0)).sum() for edge in edges])
        share[rank] = np.diff(below) / np.diff(edges)
    return share


def first_quarter(replayed: Replayed) -> tuple[Floats, float]:
    """Return what REAL's Figure 12 draws of a point: busy shares of an epoch's first quarter in 60 bins, [ranks, 60], and its seconds."""
    until = max(int(replayed.trace.span_ns * 0.25), 1)
    return busy_shares(replayed.trace, 60, until), until / 1e9


def busy(quarter: tuple[Floats, float]) -> dict[str, float]:
    """Return the mean, least and most of GPUs' busy shares (columns 'busy share', 'least busy GPU', 'most busy GPU') for REAL's Figure 12.

    quarter: busy shares [ranks, 60] of an epoch's first quarter and its seconds, as `first_quarter` returns them.
    """
    by_gpu = quarter[0].mean(1)
    return {"busy share": float(by_gpu.mean()), "least busy GPU": float(by_gpu.min()), "most busy GPU": float(by_gpu.max())}


def busy_summary(points: Sequence[Mapping[str, Any]]) -> list[dict[Hashable, Any]]:
    """Return a row a strategy and model for REAL's Figure 12: mean, least and most of GPUs' busy shares over data sets.

    points: lines with strategy, model, published, and the columns that `busy` gives.
    """
    ends = {"published": "first", "busy share": "mean", "least busy GPU": "min", "most busy GPU": "max"}
    frame = pd.DataFrame(points, columns=["strategy", "model", *ends])
    rows: list[dict[Hashable, Any]] = frame.groupby(["strategy", "model"], sort=False, as_index=False).agg(ends).to_dict("records")
    return rows


def given_up(strategy: str, gpus: int, moved: float) -> str:
    """Return the reason of a row of REAL's Figure 15: more GPUs give up reuse if they load `moved` times one GPU's bytes from the host."""
    if moved < 1.05:
        return UNKNOWN
    return f"{strategy} on {gpus} GPUs moves {moved:.2f} times the bytes of one GPU from the host: it gives up type II reuse"


def heat(title: str, quarter: tuple[Floats, float]) -> Heat:
    """Return a panel of the heat maps of REAL's Figure 12: GPUs' busy shares [ranks, 60] and seconds, as `first_quarter` returns them."""
    return Heat(title, *quarter)
