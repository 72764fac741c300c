"""Attention: copied windows against index-batching with A3T-GCN (Table 6)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from chronoscale.batching.signals.standardisation import fit_scaler
from chronoscale.batching.signals.windows import Windows
from chronoscale.harness.reproduce.pgti import naive
from chronoscale.harness.reproduce.pgti.trained import FEW, RATE, Training, memory, signal, trained
from chronoscale.harness.study.findings import NAN, Findings, Told, beside
from chronoscale.reports.published import published
from chronoscale.strategies.workload import ModelChoice

PAIR, WIDTH = ("pgt", "index"), 32  # width of PyTorch Geometric Temporal's example
WEEK = Training("los_loop", PAIR, 4, batch=32, model=ModelChoice("a3t-gcn", WIDTH))
WHOLE = Training("metr_la_like", PAIR, 1, batch=32, model=ModelChoice("a3t-gcn", WIDTH))

TEST = "printed is of METR-LA's test period, ours the best of the validation period of a week of it"


def run(told: Told, quick: bool) -> Findings:
    """Ratio of time, errors on a week of METR-LA, memory at its full size."""
    base, index = published("pgt-i").tables[6].rows
    one = Training(WEEK.dataset, PAIR, 1, WEEK.batch, batches=4, model=WEEK.model) if quick else WEEK
    told(f"{one.epochs} epochs")
    found = trained(one)
    ratio = float(np.median(found["index"].seconds / found["pgt"].seconds))
    rows = [
        beside("time of index over pgt", float(index["seconds"]) / float(base["seconds"]), ratio, f"median of {one.epochs} pairs of epochs")
    ]
    data = signal(one.dataset)
    unit = float(fit_scaler(data, Windows(len(data), one.horizon, one.horizon), "series").deviation[0])
    for name, line in zip(PAIR, (base, index), strict=True):
        why = f"another measure: {TEST}; ours in squares of the deviation of all its speeds, {unit:.2f}"
        rows.append(beside(f"{name}, MSE, standardised", float(line["mse"]), float(found[name].mse.min()) / unit**2, why) | {"ratio": NAN})
    best = float(found["index"].mse.min()) / unit**2
    known = {how: error / unit**2 for how, error in naive.validation(one, squared=True).items()}
    rows += [beside(f"{how}, MSE, standardised", NAN, error, naive.beside(best, error)) for how, error in known.items()]
    theirs, ours = float(index["mse"]) / float(base["mse"]), float(found["index"].mse.min() / found["pgt"].mse.min())
    rows.append(beside("MSE of index over pgt", theirs, ours, f"another measure: {TEST}; ours saw the same windows in the same order"))
    if not quick:
        told("memory")
        held = memory(WHOLE)
        for name, line in zip(PAIR, (base, index), strict=True):
            why = f"sampled; planned for the data: {held[name].planned_bytes / 1e6:.1f} MB"
            rows.append(beside(f"{name}, memory, MB", float(line["mb"]), held[name].sampled_bytes / 1e6, why))
        saved = 1 - held["index"].sampled_bytes / held["pgt"].sampled_bytes
        alone = 1 - held["index"].planned_bytes / held["pgt"].planned_bytes
        theirs = 1 - float(index["mb"]) / float(base["mb"])
        rows.append(beside("memory saved", theirs, saved, f"of the data alone (eq. 1 and 2): {alone:.1%}"))
    frame = pd.DataFrame({"epoch": range(1, one.epochs + 1)} | {f"{n} {k}": getattr(found[n], k) for n in PAIR for k in ("seconds", "mse")})
    said = (("Quick: one epoch of 4 steps, no memory.",) if quick else ()) + (
        f"Executed on CPU, one core, width {WIDTH}, batches of {WEEK.batch}, learning rate {RATE:g}; "
        f"epochs: {one.epochs}, of the paper's 30. "
        "Time and error on los_loop, a week of METR-LA; memory on `metr_la_like`, generated, of METR-LA's size, float32. "
        "The test period is not evaluated.",
        naive.verdict(one.dataset, best, known),
        naive.NAIVE,
        FEW,
    )
    return Findings(pd.DataFrame(rows), (), {"epochs": frame}, said)
