"""Training: loss curves of REAL's strategies beside the baselines', executed (Figures 14, 25, 26)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from chronoscale.datasets import catalogue
from chronoscale.datasets.convert import snapshots_by_width
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.harness.reproduce import executed, notes
from chronoscale.harness.reproduce.studies import LIMIT
from chronoscale.harness.reproduce.study import Findings, Told
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts, Floats
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload

DATASET, WEEK_S = "uci_messages", 604_800
SHOWN = ("esdg", "psg", "real-g", "real-g+", "real-l")
GROUPS, RANKS, WIDTH, RATE = 16, 2, 16, 0.002  # learning rate of one group a step
EPOCHS = {14: 60, 25: 100, 26: 100}

ACCURACY = (
    "Accuracy: not reached; no labelled dynamic graph is at hand (the paper's are Arxiv, Products, Reddit). Shown is the "
    "training loss of node regression."
)
WHY = (
    "published curves are said to align closely; a step of ours averages the gradients of all groups placed in it, so "
    "strategies differ in steps "
    "an epoch alone, and the learning rate is scaled with the groups a step (§7.4)"
)


@cache
def snapshots() -> SnapshotSequence:
    """Weekly snapshots of the first groups. Raises UserError where the data is not at hand."""
    found = catalogue.load(DATASET)
    if not isinstance(found, EventStream):
        raise UserError(f"dataset '{DATASET}': expected events")
    return snapshots_by_width(found, WEEK_S).head(GROUPS + 4).without_self_edges()


def weights(schedule: Schedule) -> Floats:
    """Groups of every iteration, float64 [iterations]: an iteration's loss is the mean over them."""
    pairs = np.unique(np.stack([schedule.iteration, schedule.unit])[:, schedule.unit >= 0], axis=1)
    return np.bincount(pairs[0], minlength=schedule.iterations).astype(np.float64)


@cache
def losses(name: str, epochs: int) -> tuple[Schedule, list[float]]:
    """The schedule and mean losses of the epochs; once a process, as two figures show one run. Raises UserError for what does not run."""
    sequence, shape, hyper = snapshots(), model_shape("wd-gcn", WIDTH, WIDTH), Hyper()
    work, costs = Workload(DATASET, statistics_of(sequence), shape, hyper), DatasheetCosts(presets.cluster("h200").device)
    schedule = strategy(name).plan(work, RANKS, costs)
    done = executed.passes(schedule, sequence, shape, hyper, epochs, learning_rate=RATE)
    return schedule, [float(np.average(one.losses, weights=weights(schedule))) for one in done]


def run(number: int, told: Told, quick: bool) -> Findings:
    """Loss an epoch of every strategy from the same initial weights, on two ranks; the last epochs' losses against PSG's."""
    printed = published("real").figures[number]
    snapshots()  # not at hand: the study fails, not each strategy
    epochs = 10 if quick else EPOCHS[number]
    curves: dict[str, list[float]] = {}
    plans: dict[str, Schedule] = {}
    failed = []
    for name in SHOWN:
        told(f"{name}, {epochs} epochs")
        try:
            plans[name], curves[name] = losses(name, epochs)
        except UserError as error:
            failed.append(f"{name} is not executed: {error}")
    tail = max(epochs // 10, 1)
    last = {name: float(np.mean(values[-tail:])) for name, values in curves.items()}
    base = next((name for name in ("esdg", "psg") if name in last), "")
    rows = [
        {"what": name, "published": "aligns with ESDG (plot only)", "first loss": values[0], "last loss": last[name]}
        | {f"ratio to {base}": last[name] / last[base], "steps an epoch": plans[name].iterations, "why": WHY}
        for name, values in curves.items()
    ]
    series = {name: (list(range(1, epochs + 1)), values) for name, values in curves.items()}
    caption = f"Mean loss of an epoch, WD-GCN on {DATASET}, {GROUPS} groups, {RANKS} ranks, executed on CPU."
    drawn = lines(f"real-figure-{number}", f"{printed.title}: {LIMIT}", caption, [Panel("training loss", "epoch", "loss", series)])
    frame = pd.DataFrame({"epoch": range(1, epochs + 1), **curves})
    said: tuple[str, ...] = (f"Quick: {epochs} epochs.",) if quick else ()
    said += (
        ACCURACY,
        f"{DATASET} in weeks: the first {GROUPS} groups; widths {WIDTH}; Adam, learning rate {RATE:g} times the groups a step; "
        f"last: mean of {tail} epochs.",
        *notes.unsolved(pd.DataFrame([{"strategy": name, "note": plan.note, "gap": plan.gap} for name, plan in plans.items()])),
        *failed,
    )
    return Findings(pd.DataFrame(rows), (drawn,), {"loss": frame}, said)
