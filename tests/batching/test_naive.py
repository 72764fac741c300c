"""Naive predictions, against loops over windows."""

import numpy as np
import pytest

from chronoscale.batching.signals import naive
from chronoscale.batching.signals.naive import LAST, MEAN, naive_errors
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.signals.signal import Signal

EDGES = np.zeros((2, 1), np.int32)


@pytest.mark.parametrize("block", [1 << 24, 1 << 7])
def test_they_are_what_loops_find(block, monkeypatch):
    """Holes in inputs and targets, a sensor that is silent in the training period, one that never speaks, and a channel beside."""
    monkeypatch.setattr(naive, "BLOCK_BYTES", block)
    rng = np.random.default_rng(3)
    values = rng.normal(5, 2, (60, 4, 2))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:45, 2], values[:, 3], values[50, 0, 0] = np.nan, np.nan, 1e-9
    windows, x = Windows(60, 4, 3), values[:, :, 0]
    trained = x[: windows.training_steps]
    mean = [np.nanmean(one) if not np.isnan(one).all() else np.nanmean(trained) for one in trained.T]
    wrong = {LAST: [], MEAN: []}
    for start in windows.test:
        for sensor in range(4):
            seen = [v for v in x[start : start + 4, sensor] if not np.isnan(v)]
            for truth in x[start + 4 : start + 7, sensor]:
                if not np.isnan(truth):
                    wrong[LAST].append((truth, seen[-1] if seen else mean[sensor]))
                    wrong[MEAN].append((truth, mean[sensor]))
    errors = naive_errors(Signal.from_readings(values, EDGES), windows)
    for name, pairs in wrong.items():
        truth, predicted = np.array(pairs).T
        error = np.abs(predicted - truth)
        share = (error / np.abs(truth))[np.abs(truth) > 1e-3]
        by_hand = {"mae": error.mean(), "rmse": np.sqrt((error**2).mean()), "mape": share.mean()}
        assert errors[name] == pytest.approx(by_hand, rel=1e-12)


def test_other_windows_and_none():
    signal = Signal(np.arange(40, dtype=np.float32)[:, None, None], EDGES)
    windows = Windows(40, 2, 1)
    errors = naive_errors(signal, windows, windows.validation)[LAST]
    assert errors["mae"] == errors["rmse"] == 1
    assert naive_errors(signal, windows, range(0)) == {LAST: {}, MEAN: {}}
    zeros = Signal(np.zeros((40, 1, 1), np.float32), EDGES)
    errors = naive_errors(zeros, windows)[LAST]
    assert errors["mae"] == errors["rmse"] == 0 and np.isnan(errors["mape"])  # nothing to be a share of
