"""Reductions: what FlareDTDG saves of its own ablations' memory and time, simulated (Tables 7, 8, 9, 10, 11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from chronoscale.harness.reproduce.flaredtdg.points import (
    DECAY,
    FULL,
    OURS,
    REMAPPED,
    SEQUENTIAL,
    Outcome,
    Point,
    grid,
    kept,
    line,
    notes,
    simulate,
)
from chronoscale.harness.study.findings import AGREES, Findings, Told, beside

MB = 1e3  # of a GB
Why = Callable[[Point, float, float], str]


@dataclass(frozen=True, slots=True)
class Ablation:
    """before: our strategy, and whose figures the table has beside FlareDTDG's. measure: of an outcome, in the table's unit."""

    number: int
    before: str
    column: str
    what: str
    unit: str
    measure: Callable[[Outcome], float]
    why: Why
    notes: tuple[str, ...] = ()

    def ours(self, point: Point) -> tuple[float, float]:
        """Without and with what the table is about."""
        whole = Point(point.dataset, point.model, self.before, point.gpus, point.cut)
        return self.measure(simulate(whole)), self.measure(simulate(point))


def change(before: float, after: float) -> float:
    """As the paper prints it: negative where `after` is less."""
    return after / before - 1


def history(point: Point, theirs: float, ours: float) -> str:
    """A window's share, and how long a full history would have to be for the printed reduction."""
    share, window = kept() / DECAY.window, DECAY.window
    said = f"of {window} snapshots a window keeps {kept():.3g}, {1 - share:.0%} less of nodes, and of edges less than that"
    if abs(ours / theirs - 1) <= AGREES:
        return said
    return f"{said}; {-theirs:.0%} less would be that of a full history of {window * (1 + ours) / (1 + theirs):.3g} snapshots, not {window}"


def remapping(point: Point, theirs: float, ours: float) -> str:
    """What of an epoch building anew is, and what is saved once windows follow one another."""
    before, after = simulate(Point(point.dataset, point.model, REMAPPED)), simulate(point)
    assert before.parts is not None
    return (
        f"building anew is {before.parts.share('gather'):.1%} of our epoch without shrinking; from step to step "
        f"{change(before.step_s, after.step_s):+.1%}, but an epoch's first windows wait for the host to number their snapshots anew"
    )


def whole_snapshots(point: Point, theirs: float, ours: float) -> str:
    """What remapping keeps here."""
    return f"ours without shrinking keeps a window's snapshots whole on the device, to build from; {-theirs:.1%} leave no room for that"


def exchanges(point: Point, theirs: float, ours: float) -> str:
    """Seconds of both, and how much of an epoch that is."""
    printed = line(11, point.dataset, point.model)
    before, after = (simulate(Point(point.dataset, point.model, name)) for name in (SEQUENTIAL, OURS))
    pairs = ((before, printed["sequential"]), (after, printed["flaredtdg"]))
    said = [f"{found.alone_s:.2g} s, {found.alone_s / found.epoch_s:.0%} of our epoch (printed {theirs:.2g} s)" for found, theirs in pairs]
    return f"without overlap {said[0]}, with it {said[1]}; simulated exchanges slow no kernel and begin when they can"


def run(number: int, told: Told, quick: bool) -> Findings:
    """Reductions beside each other; figures of both in a table."""
    ablation = next(one for one in ABLATIONS if one.number == number)
    rows, figures = [], []
    for dataset, model in grid(quick):
        told(f"{dataset}, {model}")
        point, printed = Point(dataset, model), line(ablation.number, dataset, model)
        before, after = ablation.ours(point)
        theirs, ours = change(printed[ablation.column], printed["flaredtdg"]), change(before, after)
        rows.append(beside(f"{dataset}, {model}, {ablation.what}", theirs, ours, ablation.why(point, theirs, ours)))
        figures.append(
            {"dataset": dataset, "model": model, f"published {ablation.column}, {ablation.unit}": printed[ablation.column]}
            | {f"published flaredtdg, {ablation.unit}": printed["flaredtdg"]}
            | {f"ours {ablation.before}, {ablation.unit}": before, f"ours flaredtdg, {ablation.unit}": after}
        )  # fmt: skip
    frame = pd.DataFrame(figures)
    return Findings(pd.DataFrame(rows), (), {"figures": frame}, (*ablation.notes, *spans(frame), *notes(quick)))


def spans(frame: pd.DataFrame) -> tuple[str, ...]:
    """The figures that the reductions are of, least to most."""
    found = [f"{name}: {frame[name].min():.3g} to {frame[name].max():.3g}" for name in frame.columns[2:]]
    return (f"Figures: {'; '.join(found)}.",)


CONVERGENCE = (
    "Published are seconds to convergence, ours of one epoch: what compares is the reduction, where both converge in as many epochs.",
)
ABLATIONS = (
    Ablation(7, FULL, "full_history", "memory a GPU", "MB", lambda o: o.peak_gb * MB, history),
    Ablation(8, FULL, "full_history", "time", "s", lambda o: o.epoch_s, history, CONVERGENCE),
    Ablation(9, REMAPPED, "remapped", "time", "s", lambda o: o.epoch_s, remapping, CONVERGENCE),
    Ablation(10, REMAPPED, "remapped", "memory a GPU", "MB", lambda o: o.peak_gb * MB, whole_snapshots),
    Ablation(11, SEQUENTIAL, "sequential", "communication alone", "s", lambda o: o.alone_s, exchanges),
)
