"""Rivals of forecasters and of models on snapshots in pandas and scikit-learn, by code of their own: nothing of `chronoscale` is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge

Errors = dict[str, float]
PENALTIES = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]
RATES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7)


def forecasts(
    x: pd.DataFrame, window: int, horizon: int, parts: Mapping[str, range], periods: Mapping[str, tuple[int, int]]
) -> dict[str, Errors]:
    """Return MAE, RMSE and MAPE of every rival on the test windows. x: steps by sensors, NaN where there is none. parts: first steps of the
    windows that train, validate and test. periods: by the name of a period, its steps and those that stand in where an average has none
    (0: none)."""
    trained = x.iloc[: len(parts["train"]) + window - 1]
    mean = trained.mean().fillna(np.nanmean(trained.to_numpy()))
    filled = x.ffill(limit=window - 1)
    predictions: dict[str, list[pd.DataFrame]] = {name: [] for name in ("last value", "training mean")}
    weights = _ridge((x - mean).to_numpy(), window, horizon, parts)
    truth, starts = [], np.array(parts["test"])
    for ahead in range(horizon):
        at = starts + window + ahead
        truth.append(x.iloc[at].to_numpy())
        predictions["last value"].append(filled.iloc[at - ahead - 1])
        predictions["training mean"].append(pd.DataFrame(np.tile(mean, (len(at), 1))))
        for name, (period, other) in periods.items():
            before = x.shift((ahead // period + 1) * period)
            for _ in range(6):
                before = before.fillna(before.shift(period))
            predictions.setdefault(f"{name} before", []).append(before.iloc[at])
            average = _average(trained, period, at)
            average = average if not other else average.fillna(_average(trained, other, at))
            predictions.setdefault(f"average by {name}", []).append(average)
        lags = np.stack([np.nan_to_num((x - mean).to_numpy()[starts + lag]) for lag in range(window)], axis=2)
        predictions.setdefault("ridge", []).append(pd.DataFrame(lags @ weights[ahead] + mean.to_numpy()))
    known = np.stack(truth)
    results = {}
    for name, frames in predictions.items():
        predicted = np.stack([np.where(frame.isna(), mean.to_numpy(), frame) for frame in frames])
        there = ~np.isnan(known)
        error, size = np.abs(predicted - known)[there], np.abs(known)[there]
        share = (error / np.where(size > 1e-3, size, np.nan))[size > 1e-3]
        results[name] = {"mae": error.mean(), "rmse": np.sqrt((error**2).mean()), "mape": share.mean()}
    return results


def _average(trained: pd.DataFrame, period: int, at: np.ndarray) -> pd.DataFrame:
    return trained.groupby(np.arange(len(trained)) % period).mean().reindex(at % period).reset_index(drop=True)


def _ridge(centred: np.ndarray, window: int, horizon: int, parts: Mapping[str, range]) -> list[np.ndarray]:
    """Return the weights of each step; training and validation windows whose targets a test window has to predict are left out."""
    last, weights = parts["test"].start - horizon + 1, []
    lags = np.stack([np.nan_to_num(centred[lag : len(centred) - window + lag]) for lag in range(window)], axis=2)
    for ahead in range(horizon):
        targets = centred[window + ahead :]
        sets = []
        for part in ("train", "validation"):
            own = slice(parts[part].start, max(min(parts[part].stop, last), parts[part].start))
            there = ~np.isnan(targets[own])
            sets.append((lags[: len(targets)][own][there], targets[own][there]))
        (inputs, known), (tried, tried_known) = sets
        scale = np.square(inputs).sum() / window
        fits = [Ridge(alpha=penalty * scale, fit_intercept=False, solver="cholesky").fit(inputs, known).coef_ for penalty in PENALTIES]
        errors = [np.square(tried @ fit - tried_known).mean() for fit in fits] if len(tried) else [abs(at - 3.0) for at in range(len(fits))]
        weights.append(fits[int(np.argmin(errors))])
    return weights


def series(values: np.ndarray, parts: Mapping[str, range], horizon: int) -> dict[str, float]:
    """Return the MSE of every rival on the test snapshots. values: [T, N, outputs], float64."""
    frame = pd.DataFrame(values.reshape(len(values), -1))
    mean = frame.iloc[list(parts["train"])].mean()
    smoothed = {rate: frame.ewm(alpha=rate, adjust=False).mean() for rate in RATES}

    def error(part: str, predict: Callable[[int], np.ndarray | pd.Series]) -> float:
        return float(np.mean([np.square(frame.iloc[t] - np.asarray(predict(t - horizon))).mean() for t in parts[part]]))

    def line(last: int) -> np.ndarray:
        slope, start = np.polyfit(np.arange(last + 1), frame.iloc[: last + 1].to_numpy(), 1)
        return start + slope * (last + horizon)

    best = min(RATES, key=lambda rate: error("validation", lambda last: smoothed[rate].iloc[last]))
    return {
        "last value": error("test", lambda last: frame.iloc[last]),
        "training mean": error("test", lambda last: mean),
        "linear trend": error("test", line),
        "mean so far": error("test", lambda last: frame.iloc[: last + 1].mean()),
        "exponential smoothing": error("test", lambda last: smoothed[best].iloc[last]),
    }
