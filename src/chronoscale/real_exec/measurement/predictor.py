"""Predictor: task times learned from a profile (FlareDTDG §3.4), with the error on tasks that were held out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from chronoscale.errors import UserError
from chronoscale.real_exec.measurement.fit import HELD_OUT
from chronoscale.strategies.costing.predictor import (
    FLAGS,
    SIZES,
    DenseLayer,
    HeldOutError,
    Names,
    Predictor,
    log_sizes,
    network_inputs,
    standardise,
)
from chronoscale.strategies.costs import Floats

HIDDEN = (32, 32)
STEPS = 400  # of L-BFGS at most: enough for some thousand tasks, and seconds
DECAY = 1e-3  # of weights
LEAST = 16  # samples, of which a quarter is held out
FEW = 8  # different tasks of a kind: fewer, and none stands for another
DESCRIPTION = ["kind", *SIZES, "ranks", *FLAGS]


def fit_predictor(table: pd.DataFrame, seed: int = 0) -> Predictor:
    """Fit a small network that predicts durations of tasks to a profile's timed tasks of FlareDTDG's sliding windows (§3.4), by squared
    errors of log ns.

    table: as of `fit.tabulate_samples`. Tasks with equal descriptions are one sample, of their median time; where a kind has fewer than 8
    of those, every task is one. A quarter of the samples is held out, and errors are those of every task among them; the predictor that is
    returned was fitted to all. Raises UserError where there are fewer than 16 samples.
    """
    rows = table[table["schedule"] == "blocks"]
    rows = rows.assign(kind=rows["op"] + "@" + rows["place"], ns=rows["ns"].clip(lower=1)).reset_index(drop=True)
    rows = rows.assign(sample=_samples(rows))
    known = rows["sample"].unique()
    if len(known) < LEAST:
        raise UserError(f"profile: {len(known)} different tasks of windows, at least {LEAST} are needed to learn their times")
    test = rows["sample"].isin(np.random.default_rng(seed).permutation(np.sort(known))[: int(len(known) * HELD_OUT)])
    with threadpool_limits(1):  # matrices are small: more threads take longer
        trial, _ = fit_network(_medians(rows[~test]), seed)
        errors = tuple(_errors(trial, rows[test & rows["kind"].isin(trial.kinds)]))
        return replace(fit_network(_medians(rows), seed)[0], held_out=errors)


def _samples(rows: pd.DataFrame) -> NDArray[np.int64]:
    """Return the number of the sample that each task belongs to, int64 [tasks]."""
    alike = rows.groupby(DESCRIPTION).ngroup()
    few = alike.groupby(rows["kind"]).transform("nunique") < FEW
    return np.where(few, len(rows) + np.arange(len(rows)), alike.to_numpy(np.int64))


def _medians(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(rows.groupby("sample", sort=True).agg({**dict.fromkeys(DESCRIPTION, "first"), "ns": "median"}))


def fit_network(sample: pd.DataFrame, seed: int) -> tuple[Predictor, MLPRegressor]:
    """Fit a small network to samples of measured task durations; return it as a predictor, and as scikit-learn's, whose weights it has.

    sample: a table with the columns `DESCRIPTION` and `ns`. seed: of the network's first weights.
    """
    columns = _columns(sample)
    kinds = tuple(sorted(set(sample["kind"])))
    numbers = log_sizes(columns)
    target = np.log(sample["ns"].to_numpy(np.float64))
    means, deviations = numbers.mean(0), numbers.std(0) * (np.ptp(numbers, axis=0) > 0)
    centre, scale = float(target.mean()), float(target.std() or 1.0)
    read = network_inputs(standardise(numbers, _row(means), _row(deviations)), columns, _kinds(sample), kinds)
    network = MLPRegressor(hidden_layer_sizes=HIDDEN, activation="tanh", solver="lbfgs", alpha=DECAY, max_iter=STEPS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the held-out error shows how good it is
        network.fit(read, (target - centre) / scale)
    layers = tuple(DenseLayer(_rows(weights), _row(biases)) for weights, biases in zip(network.coefs_, network.intercepts_, strict=True))
    return Predictor(kinds, _row(means), _row(deviations), layers, centre, scale), network


def _columns(frame: pd.DataFrame) -> dict[str, Floats]:
    return {name: frame[name].to_numpy(np.float64) for name in (*SIZES, "ranks", *FLAGS)}


def _kinds(frame: pd.DataFrame) -> Names:
    return frame["kind"].to_numpy(np.str_)


def _row(values: Floats) -> tuple[float, ...]:
    return tuple(map(float, values))


def _rows(values: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(_row, values))


def _errors(predictor: Predictor, tasks: pd.DataFrame) -> Iterator[HeldOutError]:
    for kind, part in tasks.groupby("kind", sort=True):
        ns = part["ns"].to_numpy(np.float64)
        off = np.abs(predictor.ns(_columns(part), _kinds(part)) - ns) / ns
        yield HeldOutError(str(kind), float(np.median(off)), float(np.quantile(off, 0.9)), len(part))
