"""FlareDTDG, executed: epochs on real snapshots, degrees of the next month predicted, on this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.datasets import catalogue
from chronoscale.datasets.convert import snapshots_by_width
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.harness.study import execution
from chronoscale.harness.study.hooks.flaredtdg import GB, bed
from chronoscale.harness.study.point import Points, StudyPoint
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.schedule import Schedule

HELD = HeldOut(0.1, 0.2)  # of the snapshots, for validation and test


def months(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split names into data sets of snapshots that are installed, and a note for each that is not, for FlareDTDG's executed studies."""
    return _at_hand(names, SnapshotSequence)


def installed(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split names into event streams that are installed, and a note for each that is not, for FlareDTDG's executed Tables 3, 4 and 6."""
    return _at_hand(names, EventStream)


def _at_hand(names: Sequence[str], kind: type) -> tuple[list[str], list[str]]:
    present, absent = list[str](), list[str]()
    for name in names:
        try:
            assert isinstance(catalogue.load(name), kind)
            present.append(name)
        except UserError as error:
            absent.append(f"Skipped: {error}.")
    return present, absent


def training(point: StudyPoint) -> dict[str, Any]:
    """Train a point of FlareDTDG's studies on this machine, one rank, for a given number of epochs (Figures 6 and 8).

    The next snapshot's degrees are predicted. Lists by epoch: `seconds`, when it `ended` (s of training so far), `validation` MSE.
    `epoch_s`: the least; `test` MSE of the best epoch's model, `naive` MSE of predictions that learn nothing, by name; `peak_gb` of the
    device, as planned. Settings: `rate` of learning, `width`, `epochs`, and `full` (whole snapshots), `alpha` (share kept of the oldest) of
    the window. Raises UserError as `chronoscale train`.
    """
    done = execution.train(_experiment(point) | {"epochs": point.setting("epochs")}, "flaredtdg", "mse")
    seconds = [(record.end_ns - record.start_ns) / 1e9 for record in done.epochs]
    return {
        "seconds": seconds, "epoch_s": min(seconds), "ended": [(record.end_ns - done.epochs[0].start_ns) / 1e9 for record in done.epochs],
        "validation": done.curve("mse"), "test": done.tested, "naive": dict(done.rivals), "peak_gb": planned_gb(done.schedule),
    }  # fmt: skip


def converged(point: StudyPoint) -> dict[str, Any]:
    """Train a point of FlareDTDG's studies on this machine, one rank, until its validation stops getting better (Tables 3, 4 and 6).

    The next snapshot's degrees are predicted. `test` MSE of the best epoch's model, `naive` MSE of predictions that learn nothing, by name;
    `settled`: epochs up to the best; `epoch_steps`, and `targets` that an epoch trains on; `taken`: steps up to the end of the best epoch;
    `ended`: whether training ended before its most steps. Strategies whose window is all snapshots (`Windows.whole`) take a step an epoch.
    Settings: `rate` of learning, `width`, `seed`, `length` (seconds of a snapshot, where data are events), `steps` (the most), `patience`
    (steps without a better validation, both in whole epochs of that strategy), `split`: of windows, 'whole' (FlareDTDG's Algorithm 1) or
    'crossed', which trains on every snapshot, as its rivals do. Raises UserError as `chronoscale train`.
    """
    keys, most, patience = _experiment(point), point.setting("steps"), point.setting("patience")
    steps = _steps(point.dataset, point.strategy, point.setting("split"), point.setting("length", None))
    keys["training"] |= {"patience": math.ceil(patience / steps)}
    done = execution.train(keys | {"epochs": math.ceil(most / steps), "seed": point.setting("seed")}, "flaredtdg", "mse")
    taken = sum(len(record.losses) for record in done.epochs[: done.settled])
    return {
        "test": done.tested, "naive": dict(done.rivals), "settled": done.settled, "epoch_steps": steps, "targets": done.schedule.targets,
        "taken": taken, "ended": len(done.epochs) < math.ceil(most / steps),
    }  # fmt: skip


def _experiment(point: StudyPoint) -> dict[str, Any]:
    """The keys of an experiment that trains a point, but for how long."""
    windows, of = bed().windows, dict(point.settings)
    assert windows is not None
    length, full = windows.decay.window, of.get("full", windows.full)
    alpha, split = of.get("alpha", windows.alpha), of.get("split", "whole" if windows.apart else "crossed")
    window = {"full": full, "decayed": length - full, "alpha": alpha, "chunks": windows.chunks, "group_size": length, "split": split}
    data: dict[str, Any] = {"name": point.dataset}
    if "length" in of:  # events, cut into snapshots
        data["cut"] = {"width": of["length"]}
    if point.strategy in windows.whole:
        window["group_size"] = HELD.training_count(_snapshots(point.dataset, of.get("length"))) - 1
    task = {"task": "degrees", "validation": HELD.validation, "test": HELD.test, "learning_rate": of["rate"], "scale_learning_rate": False}
    model = {"name": bed().models.get(point.model, point.model), "hidden": of["width"], "layers": point.layers}
    return {"dataset": data, "model": model, "training": {**window, **task}, "strategies": [point.strategy], "ranks": [1]}


class Errors(NamedTuple):
    """FlareDTDG's test errors beside a rival's, trained alike: a ratio a seed and data set, and means of what both took.

    steps, rival_steps: of the optimiser up to the best epoch. targets, rival_targets: predictions in the losses of an epoch. epochs,
    rival_epochs: up to the best.
    """

    ratios: list[float]
    steps: float
    rival_steps: float
    targets: float
    rival_targets: float
    epochs: float
    rival_epochs: float


def against(points: Points, model: str, rival: str, split: str) -> Errors:
    """Return FlareDTDG's test errors over a rival's, for FlareDTDG's executed Tables 3, 4 and 6.

    points: trained by `converged`; without the rival there are no ratios. rival: a strategy. split: of FlareDTDG's windows, and of the
    rival's where it was trained with it.
    """
    alike = points.where(model=model, strategy="flaredtdg", split=split)
    theirs = points.where(model=model, strategy=rival, split=split) or points.where(model=model, strategy=rival)
    errors = {(one.dataset, one.seed): one.test for one in theirs}
    means = [float(np.mean(some.all(name))) if some else math.nan for name in ("taken", "targets", "settled") for some in (alike, theirs)]
    return Errors([one.test / errors[one.dataset, one.seed] for one in alike] if theirs else [], *means)


@cache
def _snapshots(dataset: str, seconds: float | None) -> int:
    """How many snapshots a data set has; events are cut into those of so many seconds."""
    data = catalogue.load(dataset)
    if isinstance(data, EventStream) and seconds is not None:
        return len(snapshots_by_width(data, seconds))
    if not isinstance(data, SnapshotSequence) or seconds is not None:
        raise UserError(f"dataset '{dataset}': expected {'snapshots' if seconds is None else 'events'}")
    return len(data)


@cache
def _steps(dataset: str, planner: str, split: str, seconds: float | None) -> int:
    """How many optimiser steps a strategy's first epoch has, of whichever model: counted in one."""
    axes = {"paper": "flaredtdg", "dataset": dataset, "model": "evolvegcn", "strategy": planner, "layers": 1, "split": split}
    length = {} if seconds is None else {"length": seconds}
    keys = _experiment(StudyPoint.of({**axes, **length, "width": 1, "rate": 0.001}))
    return len(execution.train(keys | {"epochs": 1}, "flaredtdg", "mse").epochs[0].losses)


def planned_gb(schedule: Schedule) -> float:
    """Return the GB that the fullest rank's device holds at its peak by a schedule, for FlareDTDG's executed studies."""
    machine = presets.local_cpu(schedule.ranks, 1e12, Link(1e9, 1e-4))
    return float(peaks(schedule, replay(schedule, machine, DatasheetCosts(machine.device))).max()) / GB
