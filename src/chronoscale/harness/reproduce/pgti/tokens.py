"""Tokens: distributed index-batching with a transformer over nodes, PeMS-BAY (Figure 10)."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.pgti.points import SIMULATED, Outcome, Point, simulate
from chronoscale.harness.study.findings import AGREES, Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published
from chronoscale.strategies.workload import ModelChoice

GPUS = (4, 8, 16, 32)
LAYERS, HIDDEN, HEADS = 6, 768, 12  # GPT-2's width and heads; six blocks are assumed


def point(strategy: str, gpus: int) -> Point:
    """ST-LLM's sizes, without a language model's weights."""
    return Point(strategy, gpus, "pems_bay", ModelChoice("st-transformer", HIDDEN, LAYERS, heads=HEADS))


def run(told: Told, quick: bool) -> Findings:
    """An epoch on one GPU over that on several."""
    figure, counts = published("pgt-i").figures[10], (4, 32) if quick else GPUS
    one, found = simulate(point("index", 1)), dict[int, Outcome]()
    for gpus in counts:
        told(f"dist-index on {gpus} GPUs")
        found[gpus] = simulate(point("dist-index", gpus))
    known = {int(line.gpus): line for line in figure.ranges if line.gpus}
    rows = []
    for gpus, several in found.items():
        line = row(
            f"index on one GPU over dist-index on {gpus}", known.get(gpus), [one.epoch_s / several.epoch_s], "plot only in the paper"
        )
        if gpus in known:
            steps = "a fixed cost of steps and epochs is not modelled"
            line["why"] = f"within {AGREES:.0%}" if abs(float(str(line["ratio"])) - 1) <= AGREES else steps
        rows.append(line)
    rows.append(row("dist-index, preparation, s", figure.ranges[2], [found[32].prepare_s], "ours reads no file"))
    frame = pd.DataFrame(
        [{"gpus": 1, "epoch_s": one.epoch_s, "waiting_s": one.waiting_s}]
        + [{"gpus": gpus, "epoch_s": several.epoch_s, "waiting_s": several.waiting_s} for gpus, several in found.items()]
    )
    x = frame["gpus"].tolist()
    series = {"simulated": (x, (frame["epoch_s"] / 60).tolist()), "ideal": (x, [one.epoch_s / 60 / gpus for gpus in x])}
    caption = f"An epoch of a transformer over nodes ({LAYERS} blocks of width {HIDDEN}), PeMS-BAY, simulated on Polaris, batches of 64."
    drawn = lines("pgt-i-figure-10", figure.title, caption, [Panel("", "GPUs", "minutes an epoch", series, scale=("log", "log"))])
    said = ((f"Quick: {', '.join(map(str, counts))} GPUs.",) if quick else ()) + (
        *SIMULATED,
        f"ST-LLM stands as `st-transformer`: {LAYERS} blocks of width {HIDDEN}, {HEADS} heads, all trained; "
        "ST-LLM trains part of GPT-2's weights.",
    )
    return Findings(pd.DataFrame(rows), (drawn,), {"points": frame}, said)
