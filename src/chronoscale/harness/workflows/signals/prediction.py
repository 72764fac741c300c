"""Predictions of a trained forecaster as tables: a row a sensor and step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chronoscale.datasets.node_names import name_nodes
from chronoscale.datasets.signals.signal import Signal
from chronoscale.harness.workflows.execution import PredictedPeriod
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.signals.predictor import Forecast, SignalPredictor


def predictions(job: Job, period: PredictedPeriod) -> Iterator[pd.DataFrame]:
    """Predict with the forecaster that a job has trained, and yield tables: `time`, a date where the signal has times, else the number of
    the step that is predicted; `sensor`, by its name; `ahead`, how many steps after the last reading it is; `value`, in the unit of the
    data; `truth`, its reading, where there is one.

    period: the windows of the test or of the validation, or "next": the steps after the last reading.
    """
    settings = replace(job.settings, virtual=0, device="auto", launch="eager", share_gpu=False)  # wherever it was trained
    with open_context(settings) as context:
        predictor = SignalPredictor(job, context)
        signal, horizon = predictor.signal, predictor.windows.horizon
        sensors, times = np.array(name_nodes(signal, range(signal.num_nodes))), times_of(signal, horizon)
        parts = {"test": predictor.windows.test, "validation": predictor.windows.validation}
        for forecast in [predictor.next()] if period == "next" else predictor.forecasts(parts[period]):
            yield _table(forecast, sensors, times)


def times_of(signal: Signal, horizon: int) -> NDArray[Any]:
    """Return the time of each step of a signal and of `horizon` steps after it, [T + horizon]: dates, after the last one as far apart as
    most are, in months where all are; numbers of steps where it has no times, or no two that differ."""
    known = np.empty(0, "datetime64[ns]") if signal.times is None else np.asarray(signal.times).astype("datetime64[ns]")
    apart, counts = np.unique(np.diff(known), return_counts=True)
    apart, counts = apart[apart > np.timedelta64(0)], counts[apart > np.timedelta64(0)]
    if not apart.size:
        return np.arange(len(signal) + horizon)
    months = np.diff(known.astype("datetime64[M]").astype(np.int64))
    within = known - known.astype("datetime64[M]").astype("datetime64[ns]")
    if len(set(months.tolist())) == 1 and months[0] > 0 and (within == within[0]).all():
        later = (known[-1].astype("datetime64[M]") + months[0] * np.arange(1, horizon + 1)).astype("datetime64[ns]") + within[0]
    else:
        later = known[-1] + apart[counts.argmax()] * np.arange(1, horizon + 1)
    return np.concatenate([known, later])


def _table(forecast: Forecast, sensors: NDArray[Any], times: NDArray[Any]) -> pd.DataFrame:
    windows, horizon, nodes = forecast.values.shape
    ahead = np.arange(1, horizon + 1)
    columns = {
        "time": np.repeat(times[forecast.first[:, None] + ahead - 1], nodes),
        "sensor": np.tile(sensors, windows * horizon),
        "ahead": np.tile(np.repeat(ahead, nodes), windows),
        "value": forecast.values.ravel(),
        "truth": forecast.truth.ravel(),
    }
    return pd.DataFrame(columns)
