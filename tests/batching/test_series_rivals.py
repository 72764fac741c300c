"""Rivals of models that predict numbers of nodes on snapshots, against polyfit, pandas and loops; and that none reads what it predicts."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronoscale.batching.snapshots.held_out import SnapshotSplit
from chronoscale.batching.snapshots.series_rivals import RATES, score_series_rivals

SPLIT = SnapshotSplit(range(12), range(12, 16), range(16, 22))


def numbers(seed: int = 0) -> np.ndarray:
    """Of 22 snapshots, 6 nodes and 2 outputs: a level that wanders, and noise."""
    rng = np.random.default_rng(seed)
    return (np.cumsum(rng.normal(0, 0.3, (22, 6, 2)), 0) + rng.normal(3, 0.5, (22, 6, 2))).astype(np.float32)


def smoothed(x: np.ndarray, rate: float) -> np.ndarray:
    return pd.DataFrame(x.reshape(len(x), -1).astype(float)).ewm(alpha=rate, adjust=False).mean().to_numpy().reshape(x.shape)


@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("validates", [True, False])
def test_they_are_what_others_compute(horizon, validates):
    x, split = numbers(), SPLIT if validates else SnapshotSplit(range(16), range(16, 16), range(16, 22))
    choosing = split.validation if validates else range(12, 16)

    def error(predict, part: range = split.test) -> float:
        return float(np.mean([(predict(t - horizon) - x[t]) ** 2 for t in part]))

    def line(last: int) -> np.ndarray:
        known = x[: last + 1].reshape(last + 1, -1).astype(float)
        slope, start = np.polyfit(np.arange(last + 1), known, 1)
        return (start + slope * (last + horizon)).reshape(6, 2)

    by_rate = {rate: error(lambda last, rate=rate: smoothed(x[: last + 1], rate)[-1], choosing) for rate in RATES}
    best = min(by_rate, key=by_rate.get)
    expected = {
        "last value": error(lambda last: x[last]),
        "training mean": error(lambda last: x[: split.training.stop].mean(0)),
        "linear trend": error(line),
        "mean so far": error(lambda last: x[: last + 1].mean(0)),
        "exponential smoothing": error(lambda last: smoothed(x[: last + 1], best)[-1]),
    }
    results = score_series_rivals(lambda t: x[t], split, split.test, horizon)
    assert {one.name: one.scores["mse"] for one in results} == pytest.approx(expected, rel=1e-5)
    chosen = "which validation chose" if validates else "which the last quarter of training chose"
    assert results[-1].meaning.endswith(f"the newest with weight {best:g}, {chosen}")


@settings(max_examples=20)
@given(st.integers(1, 3), st.integers(16, 21), st.integers(0, 2**31))
def test_nothing_after_what_is_known_is_read(horizon, t, seed):
    """Whatever is changed later than `horizon` before a test snapshot, its error changes by the snapshot's own numbers alone."""
    x, known = numbers(seed), []
    for fill in (1.0, 50.0):
        other = x.copy()
        other[t - horizon + 1 : t], other[t + 1 :] = (fill, fill) if t - horizon + 1 > SPLIT.validation.stop - 1 else (x[0], fill)
        known.append(
            {one.name: one.scores for one in score_series_rivals(lambda at, other=other: other[at], SPLIT, range(t, t + 1), horizon)}
        )
    assert known[0] == known[1]


def test_no_snapshot_no_score():
    x = numbers()
    assert all(one.scores == {} for one in score_series_rivals(lambda t: x[t], SPLIT, range(22, 22), 1))
