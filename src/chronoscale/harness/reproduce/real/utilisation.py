"""Utilisation: how busy each GPU is over time (Figures 4, 12, 21, 24)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.reproduce import notes
from chronoscale.harness.reproduce.real import grid
from chronoscale.harness.reproduce.study import Findings, Told
from chronoscale.reports.charts.heatmap import Heat, heatmaps
from chronoscale.reports.published import published
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import COLLECTIVES, Op
from chronoscale.strategies.trace import Trace

BINS = 60
PART = 0.25  # of an epoch that is shown, its first


def busy_shares(trace: Trace, bins: int, until_ns: int) -> Floats:
    """Share of each bin in which a GPU computes, float64 [ranks, bins]; lanes merged, transfers and waiting are idle."""
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


def run(
    number: int, cluster: str, strategies: tuple[str, ...], datasets: tuple[str, ...], models: tuple[str, ...], told: Told, quick: bool
) -> Findings:
    """Heatmaps of the first quarter of an epoch, 8 GPUs, one-layer models; and the mean and spread of that share. datasets, models: the
    whole grid's where there are none."""
    datasets, models = datasets or grid.DATASETS, models or grid.MODELS
    printed = published("real").figures[number]
    if quick:
        datasets, models = datasets[:1], models[:1]
    panels, rows, refused = [], [], []
    for name in strategies:
        for model in models:
            for dataset in datasets:
                told(f"{name}, {model}, {dataset}")
                variant = "as-published" if name.startswith("real-") else "exact"
                try:
                    schedule, trace = grid.replayed(grid.Point(dataset, model, 1, name, cluster, 8, variant))
                except UserError as error:
                    refused.append(f"{name} refuses {model}: {error}")
                    break
                share = busy_shares(trace, BINS, until := max(int(trace.span_ns * PART), 1))
                panels.append(Heat(f"{name}, {model}\n{dataset}", share, until / 1e9))
                by_gpu = share.mean(1)
                rows.append(
                    {"strategy": name, "model": model, "dataset": dataset, "published": "plot only", "busy share": float(by_gpu.mean())}
                    | {
                        "least busy GPU": float(by_gpu.min()),
                        "most busy GPU": float(by_gpu.max()),
                        "note": schedule.note,
                        "gap": schedule.gap,
                    }
                )
    caption = (
        f"First {PART:.0%} of an epoch; the paper shows the first 30 s of training. Simulated on {cluster}, 8 GPUs, durations specified."
    )
    drawn = (heatmaps(f"real-figure-{number}", printed.title, caption, panels, 6),) if panels else ()
    columns = ["strategy", "model", "dataset", "published", "busy share", "least busy GPU", "most busy GPU", "note", "gap"]
    frame = pd.DataFrame(rows, columns=columns).astype({"note": str})
    said = (*notes.subset(quick, datasets, models), *notes.SIMULATED, *notes.unsolved(frame), *dict.fromkeys(refused))
    summary = frame.groupby(["strategy", "model"], sort=False, as_index=False).agg(
        {"published": "first", "busy share": "mean", "least busy GPU": "min", "most busy GPU": "max"}
    )
    return Findings(summary, drawn, {"points": frame}, said)
