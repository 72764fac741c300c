"""Rivals of forecasters against loops over windows, sensors and steps; periods; and that none reads what it predicts."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from chronoscale.batching.signals.rivals import constant, evaluation, periodic, ridge
from chronoscale.batching.signals.rivals.evaluation import score_signal_rivals, signal_rivals
from chronoscale.batching.signals.rivals.periods import autocorrelation, find_periods, periods_of, steps_a_day
from chronoscale.batching.signals.rivals.readings import Readings
from chronoscale.batching.signals.rivals.ridge import PENALTIES
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.signals.calendar import with_day_of_week, with_time_of_day
from chronoscale.datasets.signals.signal import Signal

EDGES = np.zeros((2, 1), np.int32)
DAY, STEPS, WINDOW, HORIZON = 4, 120, 5, 6  # a horizon longer than a day
RIDGE = "ridge regression on the window"


def readings(seed: int = 3, steps: int = STEPS, missing: float = 0.3) -> np.ndarray:
    """Four sensors with a day and noise: one silent in training, one that never speaks, one with a hole of days; a channel beside."""
    rng = np.random.default_rng(seed)
    day = 3 * np.sin(2 * np.pi * np.arange(steps) / DAY)
    values = (20 + day[:, None, None] + rng.normal(0, 1, (steps, 5, 2))).astype(np.float64)
    values[rng.random(values.shape) < missing] = np.nan
    values[: int(steps * 0.75), 2], values[:, 3], values[-1, 0, 0] = np.nan, np.nan, 1e-9
    values[-30:-8, 4] = np.nan
    return values


def signal_of(values: np.ndarray, day: int = DAY) -> Signal:
    signal = Signal.from_readings(values, EDGES)
    return with_time_of_day(signal, day, 2) if day else signal


def mean(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else np.nan


class Oracle:
    """What every rival predicts at one sensor and step, by loops; nan where it has nothing."""

    def __init__(self, values: np.ndarray, windows: Windows) -> None:
        self.x, self.windows, self.trained = values[:, :, 0], windows, windows.training_steps
        everywhere = np.nanmean(self.x[: self.trained])
        self.means = np.array([everywhere if np.isnan(one).all() else np.nanmean(one) for one in self.x[: self.trained].T])
        self.weights = self.ridge()

    def rows(self, starts: range, ahead: int) -> tuple[np.ndarray, np.ndarray]:
        lags, targets, w = [], [], self.windows.window
        for start in starts:
            for sensor in range(self.x.shape[1]):
                target = self.x[start + w + ahead, sensor] - self.means[sensor]
                if not np.isnan(target):
                    lags.append([0 if np.isnan(v) else v - self.means[sensor] for v in self.x[start : start + w, sensor]])
                    targets.append(target)
        return np.array(lags), np.array(targets)

    def ridge(self) -> list[np.ndarray]:
        last, weights = self.windows.test.start - self.windows.horizon + 1, []
        for ahead in range(self.windows.horizon):
            lags, targets = self.rows(range(min(len(self.windows.train), last)), ahead)
            of = range(self.windows.validation.start, min(self.windows.validation.stop, last))
            tried_lags, tried = self.rows(of, ahead)
            scale = np.trace(lags.T @ lags) / lags.shape[1]
            fitted = [
                Ridge(alpha=penalty * scale, fit_intercept=False, solver="cholesky").fit(lags, targets).coef_ for penalty in PENALTIES
            ]
            errors = (
                [np.mean((tried_lags @ one - tried) ** 2) for one in fitted] if len(tried) else [abs(i - 3) for i in range(len(fitted))]
            )
            weights.append(fitted[int(np.argmin(errors))])
        return weights

    def predict(self, name: str, start: int, ahead: int, sensor: int) -> float:
        x, end = self.x[:, sensor], start + self.windows.window
        if name == "last value":
            return next((v for v in x[start:end][::-1] if not np.isnan(v)), np.nan)
        if name == "training mean":
            return self.means[sensor]
        if name == RIDGE:
            lags = [0 if np.isnan(v) else v - self.means[sensor] for v in x[start:end]]
            return float(self.weights[ahead] @ lags) + self.means[sensor]
        period = 7 * DAY if "week" in name else DAY
        if name.startswith("same"):
            known = [step for step in range(end + ahead - period, -1, -period) if step < end]
            return next((x[step] for step in known[:7] if not np.isnan(x[step])), np.nan)
        average = mean([x[step] for step in range(self.trained) if step % period == (end + ahead) % period])
        return mean([x[step] for step in range(self.trained) if step % DAY == (end + ahead) % DAY]) if np.isnan(average) else average


@pytest.mark.parametrize(("block", "part"), [(1 << 24, "test"), (1 << 7, "test"), (1 << 9, "validation")])
def test_they_are_what_loops_find(block, part, monkeypatch):
    for module in (evaluation, constant, periodic, ridge):
        monkeypatch.setattr(module, "BLOCK_BYTES", block)
    values, windows = readings(), Windows(STEPS, WINDOW, HORIZON)
    oracle, evaluated = Oracle(values, windows), getattr(windows, part)
    results = score_signal_rivals(signal_of(values), windows, evaluated)
    average = "historical average by time of day"
    names = ["last value", "training mean", "same time yesterday", "same time last week", average, f"{average} and weekday", RIDGE]
    assert [one.name for one in results] == names
    for result in results:
        wrong = [[] for _ in range(HORIZON)]
        for start in evaluated:
            for ahead in range(HORIZON):
                for sensor in range(5):
                    truth = oracle.x[start + WINDOW + ahead, sensor]
                    predicted = oracle.predict(result.name, start, ahead, sensor)
                    if not np.isnan(truth):
                        wrong[ahead].append((truth, oracle.means[sensor] if np.isnan(predicted) else predicted))
        for key, by_step in result.steps.items():
            assert by_step == pytest.approx([errors(pairs)[key] for pairs in wrong], rel=1e-9), (result.name, key)
        assert result.scores == pytest.approx(errors([*chain(*wrong)]), rel=1e-9), result.name
        assert set(result.steps) == set(result.scores) == {"mae", "rmse", "mape"}


def errors(pairs: list[tuple[float, float]]) -> dict[str, float]:
    truth, predicted = np.array(pairs).T
    error = np.abs(predicted - truth)
    share = (error / np.abs(truth))[np.abs(truth) > 1e-3]
    return {"mae": error.mean(), "rmse": np.sqrt((error**2).mean()), "mape": share.mean()}


@settings(max_examples=15)
@given(st.integers(0, 50), st.sampled_from([0, DAY]), st.integers(0, 2**31))
def test_nothing_later_than_the_windows_end_is_read(later, day, seed):
    """Whatever is changed after the end of a test window, its prediction stays; and all are fitted before the first one."""
    values, windows = readings(steps=160), Windows(160, WINDOW, HORIZON)
    end = min(windows.test.start + WINDOW + later, windows.test.stop + WINDOW - 1)
    other = values.copy()
    other[end:] = np.random.default_rng(seed).normal(1e6, 1e6, other[end:].shape)
    predicted = []
    for each in (values, other):
        signal = signal_of(each, day)
        rivals = signal_rivals(signal, windows)
        predicted.append([rival.predict(Readings(signal), range(end, end + 1), HORIZON) for rival in rivals])
    for one, two in zip(*predicted, strict=True):
        np.testing.assert_array_equal(one, two)


def test_pedestrians_are_told_by_the_same_hour_of_yesterday():
    """Counts of 10 weeks by hours, a level a day that lasts some days: yesterday is better than the last hour, the mean and the average."""
    rng, hours = np.random.default_rng(0), 24 * 70
    shape = np.maximum(0, np.sin(2 * np.pi * (np.arange(hours) - 7) / 24)) * 800
    level = np.repeat(np.exp(np.cumsum(rng.normal(0, 0.35, (70, 6)), 0)), 24, axis=0)
    values = (shape[:, None] * level + rng.poisson(20, (hours, 6)))[:, :, None].astype(np.float32)
    for signal, yesterday in ((signal_of(values, 24), "same time yesterday"), (signal_of(values, 0), "value 24 steps before")):
        mae = {one.name: one.scores["mae"] for one in score_signal_rivals(signal, Windows(hours))}
        assert min(mae, key=mae.get) == yesterday, mae
        assert 2 * mae[yesterday] < min(mae["last value"], mae["training mean"])


def test_periods_are_known_by_the_clock_or_found_in_training():
    values, windows = readings(), Windows(STEPS, WINDOW, HORIZON)
    assert [period.steps for period in periods_of(signal_of(values), windows)] == [4, 28]
    assert [period.steps for period in periods_of(signal_of(values), Windows(35, 2, 2))] == [4]  # no week in training
    period, *others = periods_of(signal_of(values, 0), windows)
    assert len(others) < 2 and all(other.steps % 4 == 0 for other in others)
    assert period.steps == 4 and period.again == "value 4 steps before" and period.average == "historical average by step of 4"
    assert "the autocorrelation of the training period" in period.known
    assert steps_a_day(with_day_of_week(signal_of(values, 0), 4)) == 0  # tells the day alone
    assert steps_a_day(with_time_of_day(with_day_of_week(signal_of(values, 0), 4), 4)) == 4
    uneven = with_time_of_day(signal_of(values, 0), DAY)
    uneven.values[60:, :, 2] = 0.25
    assert steps_a_day(uneven) == 0
    later = values.copy()
    later[windows.training_steps :] = 10 * np.sin(np.arange(STEPS - windows.training_steps))[:, None, None]
    assert find_periods(signal_of(later, 0), windows) == find_periods(signal_of(values, 0), windows)  # whatever comes after training
    noise = np.random.default_rng(0).normal(0, 1, (400, 3, 1))
    assert find_periods(signal_of(noise, 0), Windows(400)) == find_periods(signal_of(np.cumsum(noise, 0), 0), Windows(400)) == []
    assert find_periods(signal_of(np.ones((400, 3, 1)), 0), Windows(400)) == []


def test_a_day_and_a_week_of_hours_are_both_found():
    hours = np.arange(24 * 7 * 10)
    values = np.sin(2 * np.pi * hours / 24) * (1 + (hours // 24 % 7 < 5)) + np.random.default_rng(0).normal(0, 0.1, (1, hours.size))
    assert find_periods(signal_of(values.T[:, :, None], 0), Windows(hours.size)) == [24, 168]


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_autocorrelation_by_pairs(missing):
    rng = np.random.default_rng(1)
    x = np.sin(np.arange(40) / 3)[:, None] + rng.normal(5, 0.3, (40, 3)) + np.outer(np.arange(40), [0, 1, -2])
    x[rng.random(x.shape) < missing] = np.nan
    x = np.column_stack([x, np.full(40, 3.0), np.full(40, np.nan)])  # series that never change say nothing
    expected = np.zeros((40, 3))
    for column in range(3):
        there = ~np.isnan(x[:, column])
        slope, start = np.polyfit(np.flatnonzero(there), x[there, column], 1)
        residuals = x[:, column] - start - slope * np.arange(40)
        for lag in range(40):
            products = residuals[: 40 - lag] * residuals[lag:]
            expected[lag, column] = np.nanmean(products) / np.nanmean(residuals**2) if (~np.isnan(products)).any() else 0
    np.testing.assert_allclose(autocorrelation(x), expected.mean(1), atol=1e-9)


def test_ridge_learns_what_is_linear_and_skips_windows_of_large_signals(monkeypatch):
    rng, x = np.random.default_rng(0), np.zeros((400, 3))
    for t in range(2, 400):
        x[t] = 1.5 * x[t - 1] - 0.8 * x[t - 2] + rng.normal(0, 0.01, 3)
    signal, windows = signal_of(100 + x[:, :, None], 0), Windows(400, 3, 2)
    mae = {one.name: one.scores["mae"] for one in score_signal_rivals(signal, windows)}
    assert mae[RIDGE] < 0.02 and mae[RIDGE] < 0.7 * mae["last value"]
    monkeypatch.setattr(ridge, "SAMPLES", 100)
    fitted = signal_rivals(signal, windows)[-1]
    assert "fitted to every 8th training window" in fitted.meaning
    assert {one.name: one.scores["mae"] for one in score_signal_rivals(signal, windows)}[RIDGE] < 0.02


def test_other_windows_and_none():
    signal, windows = Signal(np.arange(40, dtype=np.float32)[:, None, None], EDGES), Windows(40, 2, 1)
    last = score_signal_rivals(signal, windows, windows.validation)[0]
    assert last.scores["mae"] == last.scores["rmse"] == 1 and last.steps["mae"] == [1]
    assert all(one.scores == one.steps == {} for one in score_signal_rivals(signal, windows, range(0)))
    zeros = Signal(np.zeros((40, 1, 1), np.float32), EDGES)
    last = score_signal_rivals(zeros, windows)[0]
    assert last.scores["mae"] == last.scores["rmse"] == 0 and np.isnan(last.scores["mape"])  # nothing to be a share of
