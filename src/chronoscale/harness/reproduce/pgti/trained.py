"""Trained: epochs on windows of a signal, executed on this machine; each training once a process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from chronoscale.datasets import catalogue
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.study.sampled import Sampler
from chronoscale.harness.signals.data import planned, statistics
from chronoscale.harness.signals.experiment import SignalExperiment
from chronoscale.harness.study import execution as executed
from chronoscale.harness.study.findings import NAN
from chronoscale.strategies.costs import UNUSED, Floats
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.workload import ModelChoice

WIDTH, RATE = 16, 0.01
PGT_DCRNN = ModelChoice("pgt-dcrnn", WIDTH)
FEW = "Times are of few and short epochs, pgt's before index's in every pair: too few to say which is faster."
STAND_INS = {"windmill_like": "Windmill-Large", "pems_bay_like": "PeMS-BAY", "metr_la_like": "METR-LA"}


@dataclass(frozen=True, slots=True)
class Training:
    """Strategies that train the same model on the same windows, on `ranks` ranks each.

    horizon: also the window. batches: optimiser steps an epoch, the first ones, and as many of validation; 0: all.
    """

    dataset: str
    strategies: tuple[str, ...]
    epochs: int
    batch: int = 64
    horizon: int = 12
    batches: int = 0
    ranks: int = 1
    model: ModelChoice = PGT_DCRNN


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """Of one strategy: float64 [epochs] seconds of an epoch, mean training loss, validation MAE and mean square error; bytes that a rank is
    planned to hold on the host; most bytes sampled, NaN where strategies ran in one job."""

    seconds: Floats
    loss: Floats
    mae: Floats
    mse: Floats
    planned_bytes: float
    sampled_bytes: float


@cache
def signal(dataset: str) -> Signal:
    """Readings by name. Raises UserError where they are not at hand."""
    found = catalogue.load(dataset)
    if not isinstance(found, Signal):
        raise UserError(f"dataset '{dataset}': expected a signal")
    return found


@cache
def trained(one: Training) -> dict[str, Trained]:
    """By strategy; all in one job, epoch by epoch in turn. Raises UserError where the readings are not at hand."""
    data = signal(one.dataset)
    model = {"name": one.model.name, "hidden": one.model.hidden}
    training = {"batch_size": one.batch, "window": one.horizon, "horizon": one.horizon, "batches": one.batches}
    experiment = check({"dataset": one.dataset, "model": model, "training": training}, "pgt-i")
    assert isinstance(experiment, SignalExperiment)
    work = planned(experiment, statistics(data))
    plans = {}
    for name in one.strategies:
        planner = strategy(name)
        plans[name] = executed.Planned(planner.plan(work, one.ranks, UNUSED), work.hyper, planner.prepare(work, one.ranks, UNUSED))
    with Sampler() as held:
        done = executed.in_turn(plans, data, work.model, one.epochs, learning_rate=RATE)
    sampled, found = float(held.bytes) if len(plans) == 1 else NAN, {}
    for name, passes in done.items():
        mae, rmse = (np.array([epoch.scores[key] for epoch in passes]) for key in ("mae", "rmse"))
        seconds = np.array([epoch.trace.span_ns / 1e9 for epoch in passes])
        loss = np.array([float(epoch.losses.mean()) for epoch in passes])
        found[name] = Trained(seconds, loss, mae, rmse**2, float(plans[name].schedule.host), sampled)
    return found


def memory(one: Training) -> dict[str, Trained]:
    """By strategy, each in a process of its own for one optimiser step and one of validation, so that what it holds can be sampled."""
    alone = replace(one, epochs=1, batches=1)
    return {name: trained(replace(alone, strategies=(name,)))[name] for name in one.strategies}
