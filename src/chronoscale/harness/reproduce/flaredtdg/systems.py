"""Systems: FlareDTDG beside ESDG, DynaGraph and DynaHB at the published sizes, simulated (Tables 4 and 5)."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.flaredtdg.points import (
    BASELINES,
    DECAY,
    ESDG,
    GB,
    LARGE,
    OURS,
    SMALL,
    Outcome,
    Point,
    grid,
    kept,
    line,
    machines,
    notes,
    simulate,
)
from chronoscale.harness.reproduce.flaredtdg.stand_ins import trained
from chronoscale.harness.study.findings import NAN, UNKNOWN, Findings, Told, beside
from chronoscale.reports.published import published

UNEVEN = 0.8  # of the fullest device, that the mean is below where one rank has much more than others
UNPRINTED = {"dynagraph": "fan-outs and what else it keeps are", "dynahb": "the size of its batches, here first ones, is"}
Row = dict[str, object]


def ran_out(number: int, dataset: str, model: str, strategy: str) -> str:
    """What is printed in place of a figure, in words; '' where there is one."""
    (found,) = (one for one in published("flaredtdg").tables[number].rows if (one["dataset"], one["model"]) == (dataset, model))
    where = found.get(f"{strategy}_oom")
    return f"printed: out of {where} memory" if where else ""


def held(point: Point, found: Outcome) -> str:
    """What a device holds, in words."""
    snapshots, memory = len(trained(point.dataset)) - 1, machines(point.ranks).device.memory / GB
    beyond = f"more than the {memory:g} of a device; " if found.status == "out of memory" else ""
    if point.strategy == ESDG:
        return f"{beyond}{snapshots} snapshots, {snapshots / point.ranks:.3g} a GPU, and what checkpoints keep of them"
    if point.strategy != OURS:
        return f"{beyond}windows of {DECAY.window} snapshots; {UNPRINTED[point.strategy]} not printed"
    alone = simulate(Point(point.dataset, point.model, OURS, cut=False))
    said = f"{beyond}{kept():.3g} snapshots a window; were nothing cut {alone.peak_gb:.3g}"
    if found.mean_gb < UNEVEN * found.peak_gb:
        said += f"; {found.mean_gb:.3g} on average: METIS evens out nodes, not edges, and the stand-in has hubs"
    return said


def memory(told: Told, quick: bool) -> Findings:
    """GB a GPU of every system."""
    rows: list[Row] = []
    for dataset, model in grid(quick, SMALL + LARGE):
        told(f"{dataset}, {model}")
        printed = line(5, dataset, model)
        for strategy in (*BASELINES, OURS):
            point = Point(dataset, model, strategy)
            found, out = simulate(point), ran_out(5, dataset, model, strategy)
            why = f"refused: {found.message}" if found.status == "refused" else "; ".join(filter(None, (out, held(point, found))))
            rows.append(beside(f"{dataset}, {model}, {strategy}", printed.get(strategy, NAN), found.peak_gb, why))
    said = (
        f"GB of the fullest device; {order(rows)}.",
        "Ours counts tensors alone; the printed figures may hold what an allocator and a CUDA context reserve. What else "
        f"makes a figure differ is {UNKNOWN}.",
    )
    return Findings(pd.DataFrame(rows), (), {}, (*said, *notes(quick)))


def order(rows: list[Row]) -> str:
    """In how many of its points FlareDTDG's figure is the least of all systems', printed and ours."""
    size, least = len(BASELINES) + 1, {"published": 0, "ours": 0}
    groups = [rows[i : i + size] for i in range(0, len(rows), size)]
    for group in groups:
        for whose in least:
            figures = [float(str(one[whose])) for one in group]
            least[whose] += all(figures[-1] <= figure for figure in figures if figure == figure)
    return f"flaredtdg's is the least in {least['published']} of {len(groups)} points in print, in {least['ours']} of ours"


def slower(dataset: str, model: str, strategy: str) -> Row:
    """How many times as long a baseline takes: to convergence in print, an epoch in ours."""
    printed = line(4, dataset, model)
    theirs = printed[strategy] / printed[OURS] if strategy in printed else NAN
    other, own = simulate(Point(dataset, model, strategy)), simulate(Point(dataset, model))
    ours = other.epoch_s / own.epoch_s
    what = f"{dataset}, {model}, flaredtdg over {strategy}"
    if ours != ours:
        lacking = [f"{name} needs {one.peak_gb:.3g} GB" for name, one in ((strategy, other), (OURS, own)) if one.status != "ran"]
        return beside(what, theirs, NAN, "; ".join(filter(None, (ran_out(4, dataset, model, strategy), *lacking))))
    steps = f"steps an epoch {other.steps} and {own.steps}"
    if theirs != theirs:
        return beside(what, theirs, ours, f"{ran_out(4, dataset, model, strategy)}; {steps}")
    return beside(what, theirs, ours, f"met if {strategy} converges in {theirs / ours:.2g} times as many epochs; {steps}")


def times(told: Told, quick: bool) -> Findings:
    """How many times as long the baselines take; seconds of epochs in a table."""
    rows, epochs = list[Row](), list[Row]()
    for dataset, model in grid(quick, SMALL + LARGE):
        told(f"{dataset}, {model}")
        rows += [slower(dataset, model, strategy) for strategy in BASELINES]
        printed = line(4, dataset, model)
        for strategy in (*BASELINES, OURS):
            found = simulate(Point(dataset, model, strategy))
            epochs.append(
                {"dataset": dataset, "model": model, "strategy": strategy, "published, s to convergence": printed.get(strategy, NAN)}
                | {"ours, s an epoch": found.epoch_s, "steps an epoch": found.steps, "status": found.status, "message": found.message}
            )  # fmt: skip
    said = (
        "Published are seconds to convergence, ours are of one epoch: no ratio of the two is a speed-up alone. What is left, epochs to "
        "convergence, is not simulated. An epoch of ESDG is a single step on the whole sequence.",
    )
    return Findings(pd.DataFrame(rows), (), {"epochs": pd.DataFrame(epochs)}, (*said, *notes(quick)))
