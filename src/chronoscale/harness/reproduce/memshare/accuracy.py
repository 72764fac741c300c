"""Accuracy: test AP by strategy (Table 3), and AP over time (Figure 8), executed."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pandas as pd

from chronoscale.harness.reproduce.memshare.executed import Case, Together, datasets, executed, notes
from chronoscale.harness.study.findings import Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published

OURS, RIVALS = "memshare", ("tgl", "tgl-dist", "disttgl", "mspipe")
MODELS = ("tgn", "jodie", "apan")
WHY = "a few epochs on other streams, two ranks, one seed"


def gains(rival: str, model: str) -> dict[str, float]:
    """Printed gains of test AP over a strategy, on all data sets and numbers of GPUs that both have: columns of a row."""
    found = {(line["gpus"], line["strategy"], line["model"]): line for line in published("memshare").tables[3].rows if "model" in line}
    each = [
        float(str(mine[name])) - float(str(theirs[name]))
        for (gpus, strategy, kind), theirs in found.items()
        if (strategy, kind) == (rival, model) and (mine := found.get((gpus, OURS, model)))
        for name in ("lastfm", "wikitalk", "stackof", "gdelt")
    ]
    return {"published_low": min(each), "published_mean": float(np.mean(each)), "published_high": max(each)}


def run(told: Told, quick: bool) -> Findings:
    """Gains of test AP, a row each model and strategy, and the APs."""
    named, absent = datasets(told, quick)
    rows, lined = [], []
    for model in MODELS[:1] if quick else MODELS:
        tests: dict[str, list[float]] = {}
        for dataset in named:
            told(f"{dataset}, {model}")
            done = executed(Together(dataset, tuple(map(Case, (*RIVALS, OURS))), model, quick))
            found = {case.strategy: one.test for case, one in done.items()}
            lined.append({"dataset": dataset, "model": model, **found})
            for name in RIVALS:
                tests.setdefault(name, []).append(found[OURS] - found[name])
        rows += [row(f"{model}, gain of test AP, {OURS} over {name}", None, each, WHY) | gains(name, model) for name, each in tests.items()]
    aps = [row(f"{line['dataset']}, {line['model']}, test AP of {name}", None, [float(str(line[name]))], "no such data set in print")
           for line in lined for name in (*RIVALS, OURS)]  # fmt: skip
    said = ("Gains in shares of 1, lowest, mean and highest over data sets (in print over numbers of GPUs, too).",)
    return Findings(pd.DataFrame(rows + aps), (), {"aps": pd.DataFrame(lined)}, (*said, *notes(named, quick, absent)))


def curves(told: Told, quick: bool) -> Findings:
    """AP by seconds of training, TGN."""
    named, absent = datasets(told, quick)
    rows, panels, lined = [], [], []
    for dataset in named:
        told(dataset)
        done = executed(Together(dataset, tuple(map(Case, (*RIVALS, OURS))), quick=quick))
        series = {}
        for case, one in done.items():
            ended, aps = list(accumulate(one.seconds)), [*one.validation, one.test]
            series[case.strategy] = (ended, aps)
            lined += [{"dataset": dataset, "strategy": case.strategy, "s": s, "AP": ap} for s, ap in zip(ended, aps, strict=True)]
            rows.append(row(f"{dataset}, {case.strategy}, seconds of all epochs", None, ended[-1:], "stands in the plot alone"))
            rows.append(row(f"{dataset}, {case.strategy}, AP at their end", None, aps[-1:], "of the test"))
        panels.append(Panel(dataset, "seconds", "AP", series))
    drawn = lines(
        "memshare-figure-8", "AP over time", "TGN on two ranks, executed; the last point is the test's, others validation's.", panels
    )
    said = ("AP of what validates after each epoch, of the test after the last. The paper's is of 10 to 100 epochs (§5.1).",)
    return Findings(pd.DataFrame(rows), (drawn,), {"curves": pd.DataFrame(lined)}, (*said, *notes(named, quick, absent)))
