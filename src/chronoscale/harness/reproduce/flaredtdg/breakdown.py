"""Breakdown: parts of an epoch of MPNN-LSTM (Table 12), and ESDG's time in communication alone (Figure 1), simulated."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from chronoscale.harness.reproduce.flaredtdg.points import ESDG, LARGE, OURS, SMALL, Outcome, Point, notes, simulate
from chronoscale.harness.study.findings import NOT_PRINTED, Findings, Told, beside, row
from chronoscale.reports.charts.stacks import stacks
from chronoscale.reports.published import published

MODEL = "mpnn-lstm"
PARTS: Mapping[str, str] = {
    "remap": "gather",
    "forward": "layers",
    "backward": "backward",
    "loading": "transfer",
}  # ours of each of print's
OUTSIDE = ("chunking", "shuffle")  # of no schedule


def parts(found: Outcome) -> dict[str, float]:
    """Seconds a rank by the table's names; communication is what no computing hides."""
    assert found.parts is not None
    return {theirs: found.parts.seconds.get(ours, 0.0) for theirs, ours in PARTS.items()} | {"communication": found.alone_s}


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Of their sum, as the table's add up to 1 though parts may overlap."""
    return {name: value / sum(seconds.values()) for name, value in seconds.items()}


WHY = {
    "remap": "on the host, beside training: its share of the parts, not of the epoch",
    "forward": "a datasheet's rates",
    "backward": "a datasheet's rates; nothing is computed again",
    "communication": "alone; Table 11 has what hides",
    "loading": "one direction of PCIe a GPU, beside training",
}


def run(told: Told, quick: bool) -> Findings:
    """Shares of the parts of an epoch."""
    rows, seconds = [], []
    for line in published("flaredtdg").tables[12].rows[: 1 if quick else None]:
        dataset = str(line["dataset"])
        told(dataset)
        outside = sum(float(line[name]) for name in OUTSIDE)
        found = parts(simulate(Point(dataset, MODEL)))
        for name, share in shares(found).items():
            rows.append(beside(f"{dataset}, {name}", float(line[name]) / (1 - outside), share, WHY[name]))
        seconds.append({"dataset": dataset, "epoch_s": simulate(Point(dataset, MODEL)).epoch_s, **found})
    said = (
        "Shares of the parts that both have: METIS, once for all epochs, and the drawing of an epoch's order are no rows of a schedule. "
        "Printed they are 0.7 to 1.4 %, taken out of the published column.",
    )
    return Findings(pd.DataFrame(rows), (), {"seconds": pd.DataFrame(seconds)}, (*said, *notes(quick, f"{SMALL[0]}, MPNN-LSTM")))


def communication(told: Told, quick: bool) -> Findings:
    """ESDG's share of an epoch in communication alone, and in which a rank computes nothing."""
    printed = published("flaredtdg").figures[1].ranges[0]
    datasets = SMALL[:1] if quick else SMALL + LARGE
    found, out = dict[str, Outcome](), list[str]()
    for dataset in datasets:
        told(dataset)
        one = simulate(Point(dataset, MODEL, ESDG))
        if one.status == "ran":
            found[dataset] = one
        else:
            out.append(f"{dataset}: {one.message}.")
    alone, idle = ([getattr(one, name) / one.epoch_s for one in found.values()] for name in ("alone_s", "idle_s"))
    own = [simulate(Point(dataset, MODEL, OURS)) for dataset in found]
    rows = [
        row("ESDG, communication alone, share of an epoch", printed, alone, "our ESDG hands states from rank to rank; the published "
            "redistributes all embeddings at once, all to all (§2.2)"),
        row("ESDG, computes nothing, share of an epoch", printed, idle, "beside communication it waits for the state of the "
            "rank before, and for the host"),
        row("FlareDTDG, communication alone, share of an epoch", None, [one.alone_s / one.epoch_s for one in own], NOT_PRINTED),
    ]  # fmt: skip
    bars = {name: [100 * float(v) for v in (1 - i, a, i - a)] for name, i, a in zip(found, idle, alone, strict=True)}
    caption = f"{MODEL} under ESDG, simulated; all snapshots that train are one window."
    named = ("computing", "communication alone", "waiting")
    drawn = stacks("flaredtdg-figure-1", published("flaredtdg").figures[1].title, caption, "% of an epoch", named, {"esdg": bars})
    table = pd.DataFrame({"dataset": list(found), "alone": alone, "computes nothing": idle})
    return Findings(pd.DataFrame(rows), (drawn,), {"shares": table}, (*out, *notes(quick, f"{SMALL[0]}, MPNN-LSTM")))
