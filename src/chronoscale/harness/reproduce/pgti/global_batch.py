"""Global batch: the error as ranks, and with them the global batch, increase (Figure 8)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from chronoscale.harness.reproduce.pgti import naive
from chronoscale.harness.reproduce.pgti.trained import RATE, WIDTH, Training, trained
from chronoscale.harness.study.findings import Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published

DATASET, BATCH = "los_loop", 8  # the first week of METR-LA; windows a rank and step
RANKS, EPOCHS = (1, 2, 4, 8, 16), 4
QUICK_RANKS, QUICK_BATCHES = (1, 4), 4
REAL = 2  # ranks that are executed against one rank with their batches


def run(told: Told, quick: bool) -> Findings:
    """Best training and validation error by ranks: one rank with the global batch in their place; and two real ranks against it."""
    ranges = published("pgt-i").figures[8].ranges
    epochs, batches, ranks = (1, QUICK_BATCHES, QUICK_RANKS) if quick else (EPOCHS, 0, RANKS)
    found = {}
    for count in ranks:
        told(f"{count} ranks")
        found[count] = trained(_training(count, epochs, batches))["dist-index"]
    base, least = found[1].mae.min(), min(float(one.mae.min()) for one in found.values())
    rows = []
    for count, one in found.items():
        theirs = ranges[0] if count == 1 else None
        rows.append(
            row(
                f"{count} rank{'s' * (count > 1)}, best validation MAE",
                theirs,
                [one.mae.min()],
                "another data set; plot only in the paper beyond 1 and 128",
            )
        )
        rows.append(row(f"{count} rank{'s' * (count > 1)}, best training MAE", None, [one.loss.min()], "mean of an epoch, while it trains"))
    most = max(ranks)
    known, whole = naive.validation(_training(most, epochs, batches)), naive.training(_training(most, epochs, batches))
    learnt = min(float(one.loss.min()) for one in found.values())
    rows += [row(f"{how}, validation MAE", None, [error], naive.beside(least, error)) for how, error in known.items()]
    rows += [row(f"{how}, training MAE", None, [error], naive.beside(learnt, error)) for how, error in whole.items()]
    worse = float(ranges[1].mean or 0) / float(ranges[0].mean or 1)
    steps = f"{most} ranks of ours against 128 of theirs ({worse:.2f} times); equally many epochs are fewer steps, which learn less"
    rows.append(row(f"{most} ranks over 1, validation MAE", None, [found[most].mae.min() / base], steps))
    told(f"{REAL} real ranks")
    two = trained(Training(DATASET, ("dist-index",), 1, BATCH, batches=QUICK_BATCHES, ranks=REAL))["dist-index"]
    one = trained(Training(DATASET, ("dist-index",), 1, REAL * BATCH, batches=QUICK_BATCHES))["dist-index"]
    apart = float(np.abs(two.loss / one.loss - 1).max())
    rows.append(
        row(
            f"{REAL} real ranks against one with their batches, loss, {QUICK_BATCHES} steps", None, [apart], "relative difference; rounding"
        )
    )
    x = list(found)
    series = {"training": (x, [found[c].loss.min() for c in x]), "validation": (x, [found[c].mae.min() for c in x])}
    figure = published("pgt-i").figures[8]
    panel = Panel("", "ranks (global batch over 8)", "best MAE", series, scale=("log", "linear"))
    caption = f"Best of {epochs} epochs, PGT-DCRNN on {DATASET}. Executed on one rank with the global batch of that many."
    drawn = lines("pgt-i-figure-8", figure.title, caption, [panel])
    frame = pd.DataFrame(
        [{"ranks": c, "epoch": i + 1, "loss": o.loss[i], "mae": o.mae[i]} for c, o in found.items() for i in range(len(o.mae))]
    )
    said = ((f"Quick: {', '.join(map(str, ranks))} ranks, one epoch of {batches} steps.",) if quick else ()) + (
        f"Ranks are emulated: a step of P ranks with {BATCH} windows each is a step of one rank with P x {BATCH}, "
        "as our ranks add sums and counts of the loss (tests/real_exec/test_signal_training.py, and the last row). "
        "The paper's average ranks' means, which is the same for equal shares.",
        f"{DATASET}, real readings, all windows, width {WIDTH}, learning rate {RATE:g}, not scaled with the batch; "
        f"{epochs} epochs where the paper has 30 on PeMS.",
        naive.verdict(DATASET, least, known),
        naive.NAIVE,
    )
    return Findings(pd.DataFrame(rows), (drawn,), {"epochs": frame}, said)


def _training(count: int, epochs: int, batches: int) -> Training:
    return Training(DATASET, ("dist-index",), epochs, BATCH * count, batches=batches)
