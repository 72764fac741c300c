"""Scalability: parallel efficiency and imbalance on up to 1,024 simulated GPUs (Figure 15)."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.reproduce import notes
from chronoscale.harness.reproduce.study import UNKNOWN, Findings, Told, row
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.evaluation.metrics import Summary, parallel_efficiency
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op

SCALE = 100
# examples/real_figure15.yaml, as a study.
EXPERIMENT = {
    "dataset": {"name": "dygraph_10k", "scale": SCALE},
    "model": {"name": "wd-gcn", "hidden": 64, "inputs": 64},
    "cluster": "h200-1024",
}
SHOWN = ("psg", "real-reuse", "real-g", "real-g+")
GPUS = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
QUICK_GROUPS = 2_000


def reason(strategy: str, gpus: int, moved: float) -> str:
    """Whether reuse that one GPU had is given up; `moved`: host to device bytes over those of one GPU."""
    if moved < 1.05:
        return UNKNOWN
    return f"{strategy} on {gpus} GPUs moves {moved:.2f} times the bytes of one GPU from the host: it gives up type II reuse"


def run(told: Told, quick: bool) -> Findings:
    """10,000 generated snapshots, counts times 100; each strategy against its own single GPU, and against the best single GPU."""
    printed = published("real").figures[15]
    experiment = check({**EXPERIMENT, **({"groups": QUICK_GROUPS} if quick else {})}, "figure 15")
    work, cluster = workflow_of(experiment).workload(experiment), presets.cluster(experiment.cluster)
    costs = DatasheetCosts(cluster.device)
    found: dict[str, dict[int, Summary]] = {}
    moved: dict[tuple[str, int], float] = {}
    for name in SHOWN:
        for count in GPUS:
            told(f"{name} on {count} GPUs")
            schedule = strategy(name).plan(work, count, costs)
            trace = replay(schedule, presets.scaled(cluster, count), costs)
            moved[name, count] = float(schedule.bytes[schedule.op == Op.H2D].sum())
            found.setdefault(name, {})[count] = Summary.of([trace])
    shares = {name: parallel_efficiency({count: one.epoch_s for count, one in runs.items()}) for name, runs in found.items()}
    best = min(runs[1].epoch_s for runs in found.values())
    table = pd.DataFrame(
        [
            {"strategy": name, "gpus": count, "epoch_s": one.epoch_s, "efficiency": shares[name][count]}
            | {"efficiency_best": best / (one.epoch_s * count), "imbalance": one.imbalance, "utilisation": one.utilisation}
            for name, runs in found.items()
            for count, one in runs.items()
        ]
    )
    rows = []
    for one in printed.ranges:
        for name in ("real-g", "real-g+"):
            count = int(one.gpus or 1)
            why = reason(name, count, moved[name, count] / moved[name, 1])
            rows.append(row(f"{name}, efficiency on {count} GPUs", one, [shares[name][count]], why))
    for name in found:
        rows.append(row(f"{name}, imbalance on 1024 GPUs", None, [found[name][1024].imbalance], "plot only in the paper"))
        rows.append(
            row(
                f"{name}, times as fast as psg on 1024 GPUs",
                None,
                [found["psg"][1024].epoch_s / found[name][1024].epoch_s],
                "not in the paper",
            )
        )
    x = [float(count) for count in GPUS]
    panels = [
        Panel(
            title, "GPUs", unit, {name: (x, table[table["strategy"] == name][column].tolist()) for name in found}, scale=("log", "linear")
        )
        for title, unit, column in (("parallel efficiency", "share", "efficiency"), ("imbalance", "most over least loaded", "imbalance"))
    ]
    said: tuple[str, ...] = (f"Quick: {work.groups:,} groups.",) if quick else ()
    said += (
        notes.SIMULATED[0],
        f"{work.groups:,} groups of {len(work.snapshots.edges):,} DyGraph-like snapshots, counts times {SCALE}, "
        "WD-GCN, 8 H200 a node. efficiency_best: against the fastest single GPU.",
    )
    caption = "Each strategy against its own single GPU; imbalance of busy times, waiting excluded. Simulated, durations specified."
    return Findings(pd.DataFrame(rows), (lines("real-figure-15", printed.title, caption, panels),), {"points": table}, said)
