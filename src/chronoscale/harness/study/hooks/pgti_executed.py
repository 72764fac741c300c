"""PGT-I, executed: epochs on windows of a signal on this machine, and errors of what predicts without learning."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from chronoscale.batching.signals.rivals.constant import LastValue, TrainingMean, training_means
from chronoscale.batching.signals.rivals.evaluation import score_rivals
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
    """Return an installed data set of sensor readings, for PGT-I's executed studies.

    Raises UserError where it is not installed or holds something else.
    """
    data = catalogue.load(dataset)
    if not isinstance(data, Signal):
        raise UserError(f"dataset '{dataset}': expected a signal")
    return data


def trained(point: StudyPoint) -> dict[str, Any]:
    """Train a point's strategies on this machine in turn, an epoch each, for PGT-I's executed tables and figures.

    Settings: strategies, epochs, batch (windows), horizon (time steps of inputs and of targets), hidden, batches: optimiser steps an epoch
    and as many of validation, 0: all. By strategy: float64 [epochs] seconds, loss (training mean), mae and mse (validation); planned_bytes
    of a rank's host; sampled_bytes as measured, NaN for several strategies. Raises UserError where readings are not installed.
    """
    of, data = dict(point.settings), signal(point.dataset)
    training = {"batch_size": of["batch"], "window": of["horizon"], "horizon": of["horizon"], "batches": of["batches"]}
    training["variant"] = point.variant
    model = {"name": point.model, "hidden": of["hidden"]}
    experiment = check({"dataset": point.dataset, "model": model, "training": training}, "pgt-i")
    assert isinstance(experiment, SignalExperiment)
    work, plans = planned_workload(experiment, statistics_of(data)), {}
    for name in of["strategies"]:
        planner = strategy(name)
        schedule, before = planner.plan(work, point.gpus, UNUSED), planner.prepare(work, point.gpus, UNUSED)
        plans[name] = execution.Planned(schedule, work.hyper, before)
    with Sampler() as memory:
        done = execution.in_turn(plans, data, work.model, of["epochs"], learning_rate=RATE)
    return {
        name: {
            "seconds": np.array([epoch.trace.span_ns / 1e9 for epoch in passes]),
            "loss": np.array([float(epoch.losses.mean()) for epoch in passes]),
            "mae": np.array([epoch.scores["mae"] for epoch in passes]),
            "mse": np.array([epoch.scores["rmse"] for epoch in passes]) ** 2,
            "planned_bytes": float(plans[name].schedule.host),
            "sampled_bytes": float(memory.bytes) if len(plans) == 1 else NAN,
        }
        for name, passes in done.items()
    }


def converged(point: StudyPoint) -> dict[str, Any]:
    """Train a point of PGT-I's Table 5 on this machine until its validation error stops getting better.

    MAE in the data's units: `best` validation, `test` of the best epoch's model, `naive` of predictions that train no network on the test
    period, by name; `settled`: epochs up to the best; `ended`: whether training ended before its most epochs. Settings: batch (windows),
    horizon, hidden, seed, `epochs` at most, `patience`: those without a better validation. Raises UserError as `chronoscale train`.
    """
    of = dict(point.settings)
    training = {"batch_size": of["batch"], "window": of["horizon"], "horizon": of["horizon"], "patience": of["patience"]}
    training |= {"learning_rate": RATE, "variant": point.variant}
    model = {"name": point.model, "hidden": of["hidden"]}
    keys: dict[str, Any] = {"dataset": point.dataset, "model": model, "strategies": [point.strategy]}
    keys |= {"training": training, "ranks": [point.gpus], "epochs": of["epochs"], "seed": of["seed"]}
    done = execution.train(keys, "pgt-i", "mae")
    errors = {"best": min(done.curve("mae")), "test": done.tested, "naive": dict(done.rivals)}
    return {**errors, "settled": done.settled, "ended": len(done.epochs) < of["epochs"]}


def quartiles(values: Any) -> list[float]:
    """Return the lower quartile, median and upper quartile of values, for PGT-I's Table 3."""
    return [float(value) for value in np.quantile(values, [0.25, 0.5, 0.75])]


def deviation(dataset: str, horizon: int) -> float:
    """Return the standard deviation that a data set is standardised by, in its own units, for PGT-I's Table 6.

    horizon: time steps of a window's inputs, and of its targets.
    """
    data = signal(dataset)
    return float(fit_scaler(data, Windows(len(data), horizon, horizon), "series").deviation[0])


@cache
def _errors(dataset: str, horizon: int, phase: str, limit: int) -> Mapping[str, tuple[float, float]]:
    data = signal(dataset)
    windows: range = getattr(whole := Windows(len(data), horizon, horizon), phase)
    naive = [LastValue(horizon), TrainingMean(training_means(data, whole))]
    errors = score_rivals(data, whole, naive, windows[:limit] if limit else windows)
    return {one.name: (one.scores["mae"], one.scores["rmse"] ** 2) for one in errors}


def naive(point: Record, phase: str = "validation", squared: bool = False) -> dict[str, float]:
    """Return errors of predictions that learn nothing on a point's windows, for PGT-I's executed studies.

    By name: 'last value' (of a window's inputs) and 'training mean' (of the sensor); MAE, or MSE where `squared`, in the data's units.
    phase: 'validation' (as many windows as the point validates) or 'train'. Raises UserError where readings are not installed.
    """
    # in order of time, as all strategies but those with local shuffling on several ranks
    limit = point.batches * point.batch * point.gpus if phase == "validation" else 0
    return {name: errors[squared] for name, errors in _errors(point.dataset, point.horizon, phase, limit).items()}


def against(best: float, known: float) -> str:
    """Return in words whether a model's best error beats a naive one, the reason of a row in PGT-I's executed studies.

    best, known: errors of the model and of the naive prediction; within 1 % is a tie.
    """
    apart = best / known - 1
    if abs(apart) < TIE:
        return f"a tie: the model's best, {best:.4g}, is within {TIE:.0%} of it"
    verdict, side = ("not beaten", "above") if apart > 0 else ("beaten", "below")
    return f"{verdict}: the model's best, {best:.4g}, is {abs(apart):.0%} {side} it"


def verdict(what: str, best: float, known: Mapping[str, float]) -> str:
    """Return a note on whether a model beats all simple predictions, for PGT-I's executed studies.

    what: what the sentence begins with. best: the model's error. known: errors of predictions that train no network, by name.
    """
    least = min(known, key=lambda name: known[name])
    if best < known[least] * (1 - TIE):
        every = "both naive errors" if len(known) == 2 else f"all {len(known)} simple ones"
        return f"{what}: the model's {best:.4g} is below {every} ({least}: {known[least]:.4g})."
    return (
        f"{what}: the model's {best:.4g} does not beat the {least} ({known[least]:.4g}); "
        "its errors say that strategies train alike, not that they train well."
    )
