"""Predictor: a trained forecaster that predicts windows of its signal, in one process, whatever ranks trained it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from chronoscale.batching.signals.standardisation import Period, fit_scaler, read_steps
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Float32, Int64
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.signals.recipe import learner_of, signal_of
from chronoscale.real_exec.training.best_epoch import BEST, load_best
from chronoscale.real_exec.training.checkpoint import CHECKPOINT
from chronoscale.records import reading

READINGS = 1 << 22  # read and predicted at once


class Forecast(NamedTuple):
    """Forecasts of some windows of a signal: `first`, int64 [W], the first step that each predicts; values, truth float32 [W, horizon, N],
    in the units of the data, truth NaN where there is no reading."""

    first: Int64
    values: Float32
    truth: Float32


class SignalPredictor:
    """Predictor with the model of a training's best epoch, or of its last where none was validated.

    Raises UserError for a training without a whole epoch, and for files of another model.
    """

    def __init__(self, job: Job, context: Context) -> None:
        """job: of the training, whose folder has the model. context: of this process alone."""
        item, folder = job.items[0], Path(job.out)
        self.signal, hyper = signal_of(item), item.hyper
        self.windows = Windows(len(self.signal), hyper.window, hyper.horizon)
        self._model = learner_of(item, job.model, context).model.eval()
        self._scale = fit_scaler(self.signal, self.windows, cast(Period, hyper.standardise))
        self._device = context.device
        if (folder / BEST).exists():
            load_best(folder, self._model, lambda state: None)
            return
        with reading(folder / CHECKPOINT, "checkpoint of this model"):
            saved = torch.load(folder / CHECKPOINT, map_location="cpu", weights_only=True)
            self._model.load_state_dict(saved["model"])

    def forecasts(self, windows: range) -> Iterator[Forecast]:
        """Predict windows of the signal by their first steps, some at a time."""
        size = max(READINGS // (self.windows.reach * self.signal.num_nodes * self.signal.num_channels), 1)
        for begin in range(windows.start, windows.stop, size):
            starts = np.arange(begin, min(begin + size, windows.stop))
            block = read_steps(self.signal, begin, int(starts[-1]) + self.windows.reach)
            readings = block[(starts - begin)[:, None] + np.arange(self.windows.reach)]
            truth = readings[:, self.windows.window :, :, 0].astype(np.float32)
            yield Forecast(starts + self.windows.window, self._predict(readings[:, : self.windows.window]), truth)

    def next(self) -> Forecast:
        """Predict the steps after the signal's last one, from its last readings: one window, without a truth."""
        begin = len(self.signal) - self.windows.window
        values = self._predict(read_steps(self.signal, begin, len(self.signal))[None])
        return Forecast(np.array([len(self.signal)]), values, np.full_like(values, np.nan))

    @torch.no_grad()
    def _predict(self, readings: NDArray[np.floating]) -> Float32:
        """Return forecasts [W, horizon, N] from readings [W, window, N, C]."""
        inputs = np.empty(readings.shape, readings.dtype)
        self._scale.apply(readings, inputs)
        predicted = self._model(torch.nan_to_num(torch.from_numpy(inputs).to(self._device).float()))
        mean, deviation = float(self._scale.mean[0]), float(self._scale.deviation[0])
        return cast(Float32, (predicted * deviation + mean).cpu().numpy())
