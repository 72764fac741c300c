"""Errors: test MSE of FlareDTDG beside the baselines' and its ablations' (Tables 3 and 6), and by wall clock (Figure 6), executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from chronoscale.harness.reproduce.flaredtdg.points import BASELINES, FULL, LARGE, MODELS, OURS, line, regresses
from chronoscale.harness.reproduce.flaredtdg.trained import EPOCHS, QUICK_EPOCHS, Trained, Training, at_hand, notes, trained
from chronoscale.harness.study.findings import Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import Range, published
from chronoscale.strategies.registry import strategy

ABLATIONS = {"full_history": FULL, "recent_only": "recent-only"}
RIVALS: Mapping[int, Mapping[str, str]] = {3: {name: name for name in BASELINES if strategy(name).executes}, 6: ABLATIONS}  # printed: ours
UNLIKE = "no labelled graph of months is at hand; on generated ones: `chronoscale train` with dataset communities_small"
WHY = "other data sets, and a few epochs, as many of each, in place of convergence"


def ratios(number: int, model: str, rival: str) -> Range:
    """Printed MSE of FlareDTDG over another's, over the data sets that have both and whose task is a regression."""
    found = []
    for dataset in dict.fromkeys(str(one["dataset"]) for one in published("flaredtdg").tables[number].rows):
        known = line(number, dataset, model)
        if rival in known and regresses(dataset):
            found.append(known["flaredtdg"] / known[rival])
    return Range(strategy=OURS, over=rival, low=min(found), mean=float(np.mean(found)), high=max(found))


def accuracies(number: int, model: str) -> list[dict[str, object]]:
    """Printed per cent of nodes classified right, a line each: nothing stands beside them."""
    there = {str(one["dataset"]) for one in published("flaredtdg").tables[number].rows}
    return [
        row(f"{data}, {model}, accuracy of {name}, %", None, [], UNLIKE) | {"published_mean": value}
        for data in LARGE
        if data in there and not regresses(data)
        for name, value in line(number, data, model).items()
    ]


def runs(names: Sequence[str], told: Told, quick: bool, models: Sequence[str]) -> tuple[dict[Training, Trained], tuple[str, ...]]:
    """Every data set, model and strategy; and what must be said."""
    datasets, absent = at_hand(told, quick)
    epochs, found = QUICK_EPOCHS if quick else EPOCHS, dict[Training, Trained]()
    for dataset in datasets:
        for model in models[: 1 if quick else None]:
            for name in names:
                told(f"{dataset}, {model}, {name}")
                one = Training(dataset, model, name, epochs)
                found[one] = trained(one)
    return found, notes(datasets, epochs, quick, absent)


def run(number: int, told: Told, quick: bool) -> Findings:
    """FlareDTDG's test MSE over each other one's: printed over its data sets, ours over those at hand."""
    rivals = RIVALS[number]
    found, said = runs((*rivals.values(), OURS), told, quick, tuple(MODELS))
    rows, tests = [], {(one.dataset, one.model, one.strategy): result.test for one, result in found.items()}
    for model in tuple(MODELS)[: 1 if quick else None]:
        for theirs, ours in rivals.items():
            each = [value / tests[data, model, ours] for (data, kind, name), value in tests.items() if (kind, name) == (model, OURS)]
            rows.append(row(f"{model}, test MSE of flaredtdg over {ours}", ratios(number, model, theirs), each, WHY))
        rows += accuracies(number, model)
    table = pd.DataFrame(
        [
            {"dataset": one.dataset, "model": one.model, "strategy": one.strategy, "test MSE": result.test, **result.naive}
            for one, result in found.items()
        ]
    )
    return Findings(pd.DataFrame(rows), (), {"errors": table}, (*naive(found), *said))


def naive(found: Mapping[Training, Trained]) -> tuple[str, ...]:
    """How many trainings are better than every naive prediction; nothing where nothing was trained."""
    names = ", ".join(dict.fromkeys(name for result in found.values() for name in result.naive))
    better = sum(result.test < min(result.naive.values()) for result in found.values())
    return (f"{better} of {len(found)} models are better on the test months than every naive prediction ({names}).",) if found else ()


def curves(told: Told, quick: bool) -> Findings:
    """Validation MSE by seconds of training, T-GCN."""
    printed = published("flaredtdg").figures[6]
    found, said = runs((OURS, FULL), told, quick, ("t-gcn",))
    rows = [row("flaredtdg, t-gcn on soc_flickr and rec_amazon, seconds to converge", printed.ranges[0], [], "on other data, see below")]
    panels = list[Panel]()
    for dataset in dict.fromkeys(one.dataset for one in found):
        pair = {one.strategy: result for one, result in found.items() if one.dataset == dataset}
        goal = pair[FULL].validation[0]
        for name, result in pair.items():
            within = next((s for s, mse in zip(result.ended, result.validation, strict=True) if mse <= goal), None)
            seconds = [] if within is None else [within]
            why = f"the MSE that {FULL} has after its first epoch, {goal:.4f}" + ("" if seconds else ": not reached")
            rows.append(row(f"{dataset}, {name}, seconds to a validation MSE", None, seconds, why))
            rows.append(row(f"{dataset}, {name}, last validation MSE", None, result.validation[-1:], f"after {result.ended[-1]:.1f} s"))
        series = {name: (list(result.ended), list(result.validation)) for name, result in pair.items()}
        panels.append(Panel(dataset, "seconds of training", "validation MSE", series))
    caption = "T-GCN, validation MSE after each epoch, executed on CPU."
    drawn = (lines("flaredtdg-figure-6", printed.title, caption, panels),) if panels else ()
    table = pd.DataFrame(
        [
            {"dataset": one.dataset, "strategy": one.strategy, "epoch": i + 1, "seconds": s, "validation MSE": mse}
            for one, result in found.items()
            for i, (s, mse) in enumerate(zip(result.ended, result.validation, strict=True))
        ]
    )
    first = "Shown is the validation MSE: the test months are looked at once, at the end. Seconds are of this machine alone."
    return Findings(pd.DataFrame(rows), drawn, {"curves": table}, (first, *said))
