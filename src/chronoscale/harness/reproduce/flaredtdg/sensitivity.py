"""Sensitivity: test error, planned memory and time of an epoch by full snapshots and retention, executed (Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from chronoscale.harness.reproduce.flaredtdg.points import OURS
from chronoscale.harness.reproduce.flaredtdg.trained import EPOCHS, QUICK_EPOCHS, Trained, Training, at_hand, notes, trained
from chronoscale.harness.study.findings import NAN, Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published

MODEL = "mpnn-lstm"
FULL, ALPHA = (1, 2, 4, 6), (0.1, 0.3, 0.5)
QUICK_FULL, QUICK_ALPHA = (2, 4), (0.1,)
LEAST = "full snapshots of least test MSE"
Cells = Mapping[tuple[int, float], Trained]


def growth(cells: Cells, quantity: str) -> list[float]:
    """Of a quantity from the fewest full snapshots to the most, at each retention."""
    full, alphas = [sorted({key[i] for key in cells}) for i in (0, 1)]
    return [getattr(cells[int(full[-1]), alpha], quantity) / getattr(cells[int(full[0]), alpha], quantity) for alpha in alphas]


def known(line: Mapping[str, str | float | bool]) -> dict[str, object]:
    """What the text has of a data set."""
    low, high = float(line["full_low"]), float(line.get("full_high", NAN))
    why = f"at alpha = {line['alpha']:g}" if "alpha" in line else "alpha is not printed"
    return row(f"{line['dataset']}, {LEAST}", None, [], why) | {"published_low": low, "published_high": high}


def run(told: Told, quick: bool) -> Findings:
    """Where the error is least, and how memory and time grow."""
    printed = published("flaredtdg").figures[8]
    datasets, absent = at_hand(told, quick)
    epochs = QUICK_EPOCHS if quick else EPOCHS
    rows = [known(line) for line in printed.rows]
    panels, table = list[Panel](), list[dict[str, object]]()
    for dataset in datasets:
        cells = dict[tuple[int, float], Trained]()
        for full in QUICK_FULL if quick else FULL:
            for alpha in QUICK_ALPHA if quick else ALPHA:
                told(f"{dataset}, K = {full}, alpha = {alpha:g}")
                cells[full, alpha] = trained(Training(dataset, MODEL, OURS, epochs, full, alpha))
        best = min(cells, key=lambda key: cells[key].test)
        spread = max(one.test for one in cells.values()) / cells[best].test - 1
        rows += [
            row(
                f"{dataset}, full snapshots of least test MSE", None, [best[0]], f"at alpha = {best[1]:g}; the worst has {spread:.1%} more"
            ),
            row(f"{dataset}, memory, most full snapshots over fewest", None, growth(cells, "peak_gb"), "planned, held to what torch takes"),
            row(f"{dataset}, epoch, most full snapshots over fewest", None, growth(cells, "epoch_s"), "the shortest epoch of each"),
        ]
        for title, quantity in (("test MSE", "test"), ("planned GB", "peak_gb"), ("shortest epoch, s", "epoch_s")):
            series = {}
            for alpha in dict.fromkeys(a for _, a in cells):
                line = {k: float(getattr(one, quantity)) for (k, a), one in cells.items() if a == alpha}
                series[f"alpha = {alpha:g}"] = (list(line), list(line.values()))
            panels.append(Panel(f"{dataset}: {title}", "full snapshots", title, series))
        table += [
            {"dataset": dataset, "full": k, "alpha": a, "test MSE": one.test, "peak_gb": one.peak_gb, "epoch_s": one.epoch_s}
            for (k, a), one in cells.items()
        ]
    caption = f"{MODEL}, windows of 8 snapshots, executed on CPU; memory is planned."
    drawn = (lines("flaredtdg-figure-8", printed.title, caption, panels),) if panels else ()
    return Findings(pd.DataFrame(rows), drawn, {"cells": pd.DataFrame(table)}, notes(datasets, epochs, quick, absent))
