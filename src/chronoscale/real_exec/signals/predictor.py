"""Predictor: a trained forecaster that predicts windows of its signal, in one process, whatever ranks trained it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from chronoscale.batching.signals.standardisation import Scaler, read_steps
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Float32, Int64
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.signals.recipe import model_of, signal_of
from chronoscale.real_exec.training.best_epoch import BEST, load_best
from chronoscale.real_exec.training.checkpoint import CHECKPOINT
from chronoscale.real_exec.training.training_end import SCALE, TrainedScale
from chronoscale.records import read_json, reading


class Forecast(NamedTuple):
    """Forecasts of some windows of a signal: `first`, int64 [W], the first step that each predicts; values, truth float32 [W, horizon, N],
    in the units of the data, truth NaN where there is no reading."""

    first: Int64
    values: Float32
    truth: Float32


class SignalPredictor:
    """Predictor with the model of a training's best epoch, or of its last where none was validated, and as readings were standardised then.
    A signal that has become longer since keeps the windows that it had.

    Raises UserError for a training that has not come to its end, or did before its scale was kept, and for files of another model.
    """

    def __init__(self, job: Job, context: Context) -> None:
        """job: of the training, whose folder has the model. context: of this process alone."""
        item, folder = job.items[0], Path(job.out)
        self.signal, hyper = signal_of(item), item.hyper
        trained = read_json(folder / SCALE, TrainedScale, "record of how readings were standardised")
        if trained.steps > len(self.signal):
            raise UserError(f"{item.dataset}: {len(self.signal)} steps, and {trained.steps} when the model was trained")
        self.windows = Windows(trained.steps, hyper.window, hyper.horizon)
        self._model = model_of(item, job.model, context.settings.seed).to(context.device).eval()
        self._scale = Scaler(np.array(trained.mean), np.array(trained.deviation))
        self._device, self._most = context.device, hyper.batch_size
        if (folder / BEST).exists():
            load_best(folder, self._model, lambda state: None)
            return
        with reading(folder / CHECKPOINT, "checkpoint of this model"):
            saved = torch.load(folder / CHECKPOINT, map_location="cpu", weights_only=True)
            self._model.load_state_dict(saved["model"])

    def forecasts(self, windows: range) -> Iterator[Forecast]:
        """Predict windows of the signal by their first steps, some at a time."""
        size = self._most
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
