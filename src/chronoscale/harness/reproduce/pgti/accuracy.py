"""Accuracy: copied windows against index-batching on one rank: time, error, memory (Table 3, Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from chronoscale.harness.reproduce.pgti import naive
from chronoscale.harness.reproduce.pgti.trained import FEW, RATE, STAND_INS, WIDTH, Training, memory, trained
from chronoscale.harness.study.findings import NAN, Findings, Told, beside
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.numbers import MISSING
from chronoscale.reports.published import published

PAIR = ("pgt", "index")
RUNS = {
    "chickenpox": Training("pygt_chickenpox", PAIR, 40, batch=4, horizon=4),
    "windmill": Training("windmill_like", PAIR, 4, batch=64, horizon=8, batches=4),
    "pems_bay": Training("pems_bay_like", PAIR, 4, batch=64, batches=4),
}
QUICK = {"chickenpox": replace(RUNS["chickenpox"], epochs=2)}
SAME = "the same windows in the same order"


def said(runs: Mapping[str, Training], quick: bool) -> tuple[str, ...]:
    """What was run, and what stands for what."""
    named = [f"{STAND_INS[one.dataset]} is not at hand: `{one.dataset}`, generated, of its size" for one in runs.values()
             if one.dataset in STAND_INS]  # fmt: skip
    shown = ", ".join(f"{name}: {one.epochs} epochs" + f" of {one.batches} steps" * bool(one.batches) for name, one in runs.items())
    first = (f"Quick: only {', '.join(runs)}, {', '.join(str(one.epochs) for one in runs.values())} epochs, no memory.",) if quick else ()
    return (
        *first,
        f"Executed on CPU, one core, PGT-DCRNN of width {WIDTH}, learning rate {RATE:g}, float32. "
        f"{shown}; the paper's are 100 epochs on an A100. Chickenpox is the paper's own data.",
        *named,
    )


def table(told: Told, quick: bool) -> Findings:
    """Ratios of time, errors, what is saved of memory."""
    printed = {(str(line["dataset"]), str(line["strategy"])): line for line in published("pgt-i").tables[3].rows}
    runs, rows, detail = QUICK if quick else RUNS, list[dict[str, object]](), []
    learnt = []
    for name, one in runs.items():
        told(f"{name}, {one.epochs} epochs")
        found = trained(one)
        base, index = (printed[name, strategy] for strategy in PAIR)
        ratios = found["index"].seconds / found["pgt"].seconds
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        theirs = float(index["seconds"]) / float(base["seconds"])
        spread = f"median of {one.epochs} pairs of epochs, quartiles {low:.3f} to {high:.3f}"
        rows.append(beside(f"{name}, time of index over pgt", theirs, float(middle), spread))
        for strategy in PAIR:
            why = SAME if strategy == "index" else "other epochs, learning rate and scale; a stand-in" if one.dataset in STAND_INS else \
                "other epochs, width and learning rate"  # fmt: skip
            theirs = NAN if one.dataset in STAND_INS else float(printed[name, strategy]["mae"])
            rows.append(beside(f"{name}, best validation MAE of {strategy}", theirs, float(found[strategy].mae.min()), why))
        best, known = float(found["index"].mae.min()), naive.validation(one)
        rows += [beside(f"{name}, validation MAE of the {how}", NAN, error, naive.beside(best, error)) for how, error in known.items()]
        learnt.append(naive.verdict(name, best, known))
        apart = float(np.abs(found["index"].mae - found["pgt"].mae).max())
        theirs = abs(float(index["mae"]) - float(base["mae"]))
        rows.append(beside(f"{name}, MAE of index apart from pgt's", theirs or NAN, apart, "identical" if not apart else "not identical"))
        detail += [
            {"dataset": name, "strategy": strategy, "epoch": i + 1, "seconds": s, "loss": loss, "mae": mae}
            for strategy, run in found.items()
            for i, (s, loss, mae) in enumerate(zip(run.seconds, run.loss, run.mae, strict=True))
        ]
        if not quick:
            rows += _saved(name, one, float(base["mb"]), float(index["mb"]), told)
    return Findings(pd.DataFrame(rows), (), {"epochs": pd.DataFrame(detail)}, (*said(runs, quick), *learnt, naive.NAIVE, FEW))


def _saved(name: str, one: Training, base: float, index: float, told: Told) -> list[dict[str, object]]:
    """Sampled memory of each, and the share that index-batching saves: sampled and of the data alone."""
    told(f"{name}, memory")
    held = memory(one)
    rows = []
    for strategy, theirs in zip(PAIR, (base, index), strict=True):
        why = f"sampled, files that are mapped left out; planned for the data: {held[strategy].planned_bytes / 1e6:.1f} MB"
        rows.append(beside(f"{name}, memory of {strategy}, MB", theirs, held[strategy].sampled_bytes / 1e6, why))
    saved = 1 - held["index"].sampled_bytes / held["pgt"].sampled_bytes
    alone = 1 - held["index"].planned_bytes / held["pgt"].planned_bytes
    rows.append(beside(f"{name}, memory saved", 1 - index / base, saved, f"of the data alone (eq. 1 and 2): {alone:.1%}"))
    return rows


def curves(told: Told, quick: bool) -> Findings:
    """Validation error an epoch of both; naive errors are the same in every epoch."""
    runs, rows, panels, frames, learnt = QUICK if quick else RUNS, list[dict[str, object]](), [], [], []
    for name, one in runs.items():
        told(f"{name}, {one.epochs} epochs")
        found = trained(one)
        epochs = list(range(1, one.epochs + 1))
        panels.append(Panel(name, "epoch", "validation MAE", {s: (epochs, run.mae.tolist()) for s, run in found.items()}))
        frames.append(pd.DataFrame({"dataset": name, "epoch": epochs, **{s: run.mae for s, run in found.items()}}))
        for strategy, run in found.items():
            rows.append(
                {"what": f"{name}, {strategy}", "published": "curves only", "first": run.mae[0], "last": run.mae[-1], "best": run.mae.min()}
                | {"best epoch": str(int(run.mae.argmin()) + 1), "why": SAME}
            )
        best, known = float(found["index"].mae.min()), naive.validation(one)
        learnt.append(naive.verdict(name, best, known))
        for how, error in known.items():
            constant = {"first": error, "last": error, "best": error, "best epoch": MISSING}
            rows.append({"what": f"{name}, {how}", "published": MISSING} | constant | {"why": naive.beside(best, error)})
    figure = published("pgt-i").figures[5]
    drawn = lines("pgt-i-figure-5", figure.title, "Validation MAE by epoch; the curves coincide. Executed on CPU.", panels)
    return Findings(pd.DataFrame(rows), (drawn,), {"mae": pd.concat(frames, ignore_index=True)}, (*said(runs, quick), *learnt, naive.NAIVE))
