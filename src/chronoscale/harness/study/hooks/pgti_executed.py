"""PGT-I, executed: epochs on windows of a signal on this machine, and errors of what predicts without learning."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from chronoscale.batching.signals.naive import naive_errors
from chronoscale.batching.signals.standardisation import fit_scaler
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import catalogue
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.keys.signals import SignalExperiment
from chronoscale.harness.study import execution
from chronoscale.harness.study.findings import NAN
from chronoscale.harness.study.point import Record, StudyPoint
from chronoscale.harness.study.sampled import Sampler
from chronoscale.harness.workflows.signals.data import planned_workload, statistics_of
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy

RATE = 0.01
TIE = 0.01  # of the naive error: neither is better


@cache
def signal(dataset: str) -> Signal:
    """Return readings by name. Raises UserError where they are not at hand."""
    found = catalogue.load(dataset)
    if not isinstance(found, Signal):
        raise UserError(f"dataset '{dataset}': expected a signal")
    return found


def trained(point: StudyPoint) -> dict[str, Any]:
    """Train the strategies of a point in one job, epoch by epoch in turn, on its `gpus` ranks.

    Settings: strategies, epochs, batch, horizon (also the window), batches: optimiser steps an epoch, the first ones, and as many of
    validation, 0: all. By strategy: float64 [epochs] seconds, loss (mean of training), mae and mse (of validation); planned_bytes that a
    rank holds on the host; sampled_bytes, NaN where strategies ran in one job. Raises UserError where the readings are not at hand.
    """
    of, data = dict(point.settings), signal(point.dataset)
    training = {"batch_size": of["batch"], "window": of["horizon"], "horizon": of["horizon"], "batches": of["batches"]}
    model = {"name": point.model, "hidden": of["hidden"]}
    experiment = check({"dataset": point.dataset, "model": model, "training": training}, "pgt-i")
    assert isinstance(experiment, SignalExperiment)
    work, plans = planned_workload(experiment, statistics_of(data)), {}
    for name in of["strategies"]:
        planner = strategy(name)
        schedule, before = planner.plan(work, point.gpus, UNUSED), planner.prepare(work, point.gpus, UNUSED)
        plans[name] = execution.Planned(schedule, work.hyper, before)
    with Sampler() as held:
        done = execution.in_turn(plans, data, work.model, of["epochs"], learning_rate=RATE)
    return {
        name: {
            "seconds": np.array([epoch.trace.span_ns / 1e9 for epoch in passes]),
            "loss": np.array([float(epoch.losses.mean()) for epoch in passes]),
            "mae": np.array([epoch.scores["mae"] for epoch in passes]),
            "mse": np.array([epoch.scores["rmse"] for epoch in passes]) ** 2,
            "planned_bytes": float(plans[name].schedule.host),
            "sampled_bytes": float(held.bytes) if len(plans) == 1 else NAN,
        }
        for name, passes in done.items()
    }


def quartiles(values: Any) -> list[float]:
    """Return the quartiles."""
    return [float(value) for value in np.quantile(values, [0.25, 0.5, 0.75])]


def deviation(dataset: str, horizon: int) -> float:
    """Return the deviation of all readings, by which errors are standardised."""
    data = signal(dataset)
    return float(fit_scaler(data, Windows(len(data), horizon, horizon), "series").deviation[0])


@cache
def _errors(dataset: str, horizon: int, phase: str, limit: int) -> Mapping[str, tuple[float, float]]:
    data = signal(dataset)
    windows: range = getattr(whole := Windows(len(data), horizon, horizon), phase)
    found = naive_errors(data, whole, windows[:limit] if limit else windows)
    return {name: (scores["mae"], scores["rmse"] ** 2) for name, scores in found.items()}


def naive(one: Record, phase: str = "validation", squared: bool = False) -> dict[str, float]:
    """Return MAE (mean square) by naive prediction over the windows that a point validates, or all that it trains on, in units of the data.

    Raises UserError where the readings are not at hand.
    """
    # in order of time, as all strategies but those with local shuffling on several ranks
    limit = one.batches * one.batch * one.gpus if phase == "validation" else 0
    return {name: found[squared] for name, found in _errors(one.dataset, one.horizon, phase, limit).items()}


def against(best: float, known: float) -> str:
    """Return what a model's best error is against a naive one, in words."""
    apart = best / known - 1
    if abs(apart) < TIE:
        return f"a tie: the model's best, {best:.4g}, is within {TIE:.0%} of it"
    verdict, side = ("not beaten", "above") if apart > 0 else ("beaten", "below")
    return f"{verdict}: the model's best, {best:.4g}, is {abs(apart):.0%} {side} it"


def verdict(what: str, best: float, known: Mapping[str, float]) -> str:
    """Return one sentence on a data set: whether the model has learnt more than a naive prediction knows."""
    least = min(known, key=lambda name: known[name])
    if best < known[least] * (1 - TIE):
        return f"{what}: the model's {best:.4g} is below both naive errors ({least}: {known[least]:.4g})."
    return (
        f"{what}: the model's {best:.4g} does not beat the {least} ({known[least]:.4g}); "
        "its errors say that strategies train alike, not that they train well."
    )
