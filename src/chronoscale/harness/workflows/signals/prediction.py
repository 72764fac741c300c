"""Predictions of a trained forecaster as tables: a row a sensor and step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from chronoscale.datasets.signals.signal import Signal
from chronoscale.harness.workflows.execution import PredictedPeriod
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.signals.predictor import Forecast, SignalPredictor


def predictions(job: Job, period: PredictedPeriod) -> Iterator[pd.DataFrame]:
    """Predict with the forecaster that a job has trained, and yield tables: `time`, the step of the signal that is predicted; `sensor`;
    `ahead`, how many steps after the last reading it is; `value`, in the unit of the data; `truth`, its reading, where there is one.

    period: the windows of the test or of the validation, or "next": the steps after the last reading.
    """
    with open_context(replace(job.settings, virtual=0, threads=max(job.settings.threads, 1))) as context:
        predictor = SignalPredictor(job, context)
        sensors = _sensors(predictor.signal)
        parts = {"test": predictor.windows.test, "validation": predictor.windows.validation}
        for forecast in [predictor.next()] if period == "next" else predictor.forecasts(parts[period]):
            yield _table(forecast, sensors)


def _sensors(signal: Signal) -> np.ndarray:
    return np.arange(signal.num_nodes) if signal.node_ids is None else signal.node_ids


def _table(forecast: Forecast, sensors: np.ndarray) -> pd.DataFrame:
    windows, horizon, nodes = forecast.values.shape
    ahead = np.arange(1, horizon + 1)
    columns = {
        "time": np.repeat(forecast.first[:, None] + ahead - 1, nodes),
        "sensor": np.tile(sensors, windows * horizon),
        "ahead": np.tile(np.repeat(ahead, nodes), windows),
        "value": forecast.values.ravel(),
        "truth": forecast.truth.ravel(),
    }
    return pd.DataFrame(columns)
