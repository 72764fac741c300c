"""Case study: an epoch of DCRNN and of PGT-DCRNN on PeMS-All-LA, one GPU (Table 2)."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.pgti.points import GIB, SIMULATED, WIDTH, Point, simulate, whole
from chronoscale.harness.study.findings import UNKNOWN, Findings, Told, beside
from chronoscale.reports.published import published
from chronoscale.strategies.workload import ModelChoice

BATCH = 32
LAYERS = {"dcrnn": 2, "pgt-dcrnn": 1}  # Li et al.'s two; PGT's examples have one
LEAN = "ours keeps a cell's input for the backward pass, not its diffusions"
HOST = "arrays alone, one copy of every window; see Figure 2"


def run(told: Told, quick: bool) -> Findings:
    """Minutes, host and device memory of both models; how many times as fast."""
    printed = {str(line["model"]): line for line in published("pgt-i").tables[2].rows}
    rows, found = [], {}
    for model, line in printed.items():
        told(model)
        variant = "as-published" if model == "dcrnn" else "exact"  # copies when it standardises; in place
        choice = ModelChoice(model, WIDTH, LAYERS[model])
        one = found[model] = simulate(Point("pgt", 1, "pems_all_la", choice, batch=BATCH, variant=variant))
        slow = f"a roofline at 60 % of peak; the rest is {UNKNOWN}"
        why = (
            slow
            if model == "dcrnn"
            else "a roofline at 60 % of peak; PGT diffuses a copy of the graph for every window of a batch, ours one"
        )
        rows.append(beside(f"{model}, minutes", float(line["minutes"]), one.epoch_s / 60, why))
        rows.append(beside(f"{model}, host GiB", float(line["host_gb"]), one.host_bytes / GIB, HOST))
        rows.append(beside(f"{model}, device GiB", float(line["device_gb"]), one.device_bytes / GIB, LEAN))
    times = float(printed["dcrnn"]["minutes"]) / float(printed["pgt-dcrnn"]["minutes"])
    ours = found["dcrnn"].epoch_s / found["pgt-dcrnn"].epoch_s
    rows.append(
        beside("pgt-dcrnn over dcrnn, times", times, ours, "ours is the work of the models alone: two stacks of two layers against one")
    )
    said = (*whole(quick), *SIMULATED, f"Batches of {BATCH}, width {WIDTH}; DCRNN with {LAYERS['dcrnn']} layers. Training and validation.")
    return Findings(pd.DataFrame(rows), (), {}, said)
