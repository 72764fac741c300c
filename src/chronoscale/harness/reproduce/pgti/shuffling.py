"""Shuffling: all windows among all ranks, or whole batches within a rank's part (Table 5)."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.pgti import naive
from chronoscale.harness.reproduce.pgti.trained import RATE, WIDTH, Training, trained
from chronoscale.harness.study.findings import NAN, Findings, Told, beside
from chronoscale.reports.published import published

DATASET, BATCH, EPOCHS, QUICK_BATCHES = "los_loop", 16, 5, 3
RANKS = (2, 4)
SHUFFLES = {"dist-index": "global", "gen-dist-index": "local"}


def run(told: Told, quick: bool) -> Findings:
    """Best validation error of both, on ranks that are executed."""
    printed = published("pgt-i").tables[5].rows
    epochs, batches, ranks = (1, QUICK_BATCHES, RANKS[:1]) if quick else (EPOCHS, 0, RANKS)
    rows, frames, bests = [], [], []
    for count in ranks:
        told(f"{count} ranks")
        one = Training(DATASET, tuple(SHUFFLES), epochs, BATCH, batches=batches, ranks=count)
        found = trained(one)
        bests.append(min(float(found[name].mae.min()) for name in SHUFFLES))
        theirs = next((line for line in printed if line["gpus"] == count), None)
        for name, how in SHUFFLES.items():
            same = float(theirs[f"{how}_mae"]) if theirs else NAN
            rows.append(
                beside(f"{count} ranks, {how} shuffling, best MAE", same, float(found[name].mae.min()), "another data set: one week")
            )
            frames.append(pd.DataFrame({"ranks": count, "shuffling": how, "epoch": range(1, epochs + 1), "mae": found[name].mae}))
        ratio = float(found["gen-dist-index"].mae.min() / found["dist-index"].mae.min())
        same = float(theirs["local_mae"]) / float(theirs["global_mae"]) if theirs else NAN
        part = f"a rank's part is {1 / count:.0%} of {DATASET}'s five days of training, and its batches are of one time of day"
        rows.append(beside(f"{count} ranks, local over global", same, ratio, f"similar in the paper; {part}"))
    known = naive.validation(one)
    rows += [beside(f"{how}, MAE", NAN, error, naive.beside(min(bests), error)) for how, error in known.items()]
    said = ((f"Quick: {ranks[0]} ranks, one epoch of {batches} steps.",) if quick else ()) + (
        f"Executed on CPU, {', '.join(map(str, ranks))} ranks on two cores; 8 and 16 are not. "
        f"{DATASET}, real readings, width {WIDTH}, batches of {BATCH} a rank, learning rate {RATE:g}, {epochs} epochs. "
        "PeMS-BAY is not at hand.",
        naive.verdict(DATASET, min(bests), known),
        naive.NAIVE,
    )
    return Findings(pd.DataFrame(rows), (), {"epochs": pd.concat(frames, ignore_index=True)}, said)
