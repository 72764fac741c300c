"""Alphas: how many changes of shared nodes ranks tell each other of, and what AP becomes (Figure 14), executed."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.memshare.executed import Case, Done, Together, datasets, executed, notes
from chronoscale.harness.study.findings import NOT_PRINTED, Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published
from chronoscale.strategies.workload import SharingHyper

ALPHAS, QUICK_ALPHAS = (0.0, 0.1, 0.3, 0.5, 1.0, 2.0), (0.0, 0.3, 2.0)
OURS, EVERY, NEVER = "memshare", "memshare-all", "memshare-never"
WHY = "eq. 18 is of how a shared node's memory turns, which is the model's that is trained: ours has a few epochs, width 32, two ranks"


def run(told: Told, quick: bool) -> Findings:
    """Share of the changes that are not spoken, beside synchronising all; AP of each."""
    ranges = {str(one.strategy): one for one in published("memshare").figures[14].ranges}
    alphas = QUICK_ALPHAS if quick else ALPHAS
    cases = {f"alpha {alpha:g}": Case(OURS, SharingHyper(alpha=alpha)) for alpha in alphas} | {"all": Case(EVERY), "never": Case(NEVER)}
    named, absent = datasets(told, quick)
    rows, lined, panels = [], [], []
    for dataset in named:
        told(dataset)
        found = executed(Together(dataset, tuple(cases.values()), quick=quick))
        done = {how: found[case] for how, case in cases.items()}
        whole = done["all"].counts["shared_spoken"]
        for how, one in done.items():
            known = ranges.get(f"volume saved, {how}, {dataset}")
            saved = 1 - one.counts["shared_spoken"] / whole
            if how != "all":
                rows.append(row(f"{dataset}, {how}, messages saved of all updates', share", known, [saved], WHY if known else NOT_PRINTED))
            rows.append(row(f"{dataset}, {how}, test AP", None, [one.test], "stands in the plot alone"))
            lined.append({"dataset": dataset, "how": how, "spoken": one.counts["shared_spoken"], "changes": one.counts["shared_changes"],
                          "share": one.spoken, "test AP": one.test, "epoch_s": one.epoch_s})  # fmt: skip
        panels.append(Panel(dataset, "alpha", "share", curves(done, alphas, whole)))
    drawn = lines("memshare-figure-14", "Messages and AP by alpha", "TGN on two ranks, executed.", panels)
    said = (
        "Messages are of shared nodes in the last epoch, each with the node's memory and mailbox. All updates: of what all ranks do to a "
        "node in an iteration the newest alone is sent. With alpha each rank keeps its own memory of a node: there are more changes.",
        "alpha 2 is the largest that 1 - cosine reaches: a node is told of when it has memory for the first time, and never again.",
    )
    return Findings(pd.DataFrame(rows), (drawn,), {"alphas": pd.DataFrame(lined)}, (*said, *notes(named, quick, absent)))


def curves(done: dict[str, Done], alphas: tuple[float, ...], whole: int) -> dict[str, tuple[list[float], list[float]]]:
    """Messages over those of all updates, and AP; baselines as level lines."""
    ours = [done[f"alpha {alpha:g}"] for alpha in alphas]
    level = {f"AP, {how}": (list(alphas), [done[how].test] * len(alphas)) for how in ("all", "never")}
    spoken = (list(alphas), [one.counts["shared_spoken"] / whole for one in ours])
    return {"messages over all updates'": spoken, "AP": (list(alphas), [one.test for one in ours]), **level}
