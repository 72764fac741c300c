"""Stages: where a step of MSPipe, of DisTGL's cut and of MemShare goes (Table 1), simulated."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.memshare.points import STAGES, Point, label, notes, simulate
from chronoscale.harness.reproduce.memshare.stand_ins import CUT, QUICK
from chronoscale.harness.reproduce.memshare.stand_ins import notes as streams
from chronoscale.harness.study.findings import UNKNOWN, Findings, Told, beside
from chronoscale.reports.published import published
from chronoscale.strategies.workload import SharingHyper

DATASET, GPUS = "gdelt", 8
SYSTEMS = {  # of the table: strategy and cut; DisTGL is the authors', of TGL
    "mspipe": ("mspipe", "shared-nodes"), "distgl": ("tgl-dist", "distgl"), "memshare": ("memshare", "shared-nodes"),
}  # fmt: skip
WHY = {
    "sampling": "our host keeps up with the bus",
    "remote fetching": f"GDELT's hot nodes and cut are not printed, and the stand-in's are others; else {UNKNOWN}",
    "backward": "by a datasheet's roofline; the gradients' sum over ranks is in it",
}


def run(told: Told, quick: bool) -> Findings:
    """Shares of the sum of all stages."""
    rows, lined, divisor = [], [], (QUICK if quick else CUT)[DATASET]
    printed = {str(line["stage"]): line for line in published("memshare").tables[1].rows}
    for system, (name, policy) in SYSTEMS.items():
        told(system)
        one = simulate(Point(DATASET, name, GPUS, quick=quick, sharing=SharingHyper(policy=policy), divisor=divisor, pipelined=False))
        whole = sum(one.stages.values())
        for stage in STAGES:
            share = one.stages[stage] / whole
            rows.append(beside(f"{system}, {stage}, share", float(str(printed[stage][f"{system}_share"])), share, WHY.get(stage, UNKNOWN)))
            lined.append({"system": system, "stage": stage, "s a step": one.stages[stage], "share": share})
    said = (f"TGN on {label(GPUS)}; each stage by itself, as if nothing overlapped. Printed seconds are of how many epochs is not said: "
            "shares alone are compared.",)  # fmt: skip
    return Findings(pd.DataFrame(rows), (), {"stages": pd.DataFrame(lined)}, (*said, *notes(quick), *streams({DATASET: divisor})))
