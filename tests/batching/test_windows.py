"""Windows: counts, splits, sizes and deals, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.signals.standardisation import Moments, Scaler, fit_scaler, measure_moments, standardise
from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.datasets import catalogue
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

EDGES = np.zeros((2, 0), np.int32)


def signal(steps: int = 60, nodes: int = 5, channels: int = 2, holes: float = 0.0) -> Signal:
    rng = np.random.default_rng(3)
    values = rng.normal(50, 9, (steps, nodes, channels)).astype(np.float32)
    missing = rng.random(values.shape) < holes
    values[missing] = np.nan
    return Signal(values, EDGES, missing=missing if holes else None)


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 9))
def test_counts_and_splits(steps: int, window: int, horizon: int) -> None:
    fitting = [s for s in range(steps) if s + window + horizon <= steps]
    if not fitting:
        with pytest.raises(UserError, match="shorter than window"):
            Windows(steps, window, horizon)
        return
    windows = Windows(steps, window, horizon)
    assert len(windows) == len(fitting)
    assert [*windows.train, *windows.validation, *windows.test] == fitting
    held = np.zeros(steps, int)
    for start in windows.train:
        held[start : start + window] += 1
    assert windows.training_steps == np.count_nonzero(held)
    np.testing.assert_array_equal(windows.multiplicity, held[: windows.training_steps])
    data = np.zeros((steps, 3, 2), np.float64)
    copied = np.stack([data[s : s + window + horizon] for s in fitting])
    assert windows.materialised_bytes(3, 2, 8) == copied.nbytes
    assert windows.index_bytes(3, 2, 8) == data.nbytes + np.array(fitting, np.int64).nbytes


# What Table 1's sizes were measured on where it is not what the row prints: entries and nodes before, entries after.
MEASURED = {"chickenpox_hungary": (521, 20, 521), "pems_bay": (52_116, 325, 52_105), "pems": (105_120, 11_126, 105_120)}
TABLE_1 = [name for name in catalogue.names() if any(p.paper == "pgt-i" for p in catalogue.entry(name).published)]


@pytest.mark.parametrize("name", TABLE_1)
def test_sizes_of_table_1(name: str) -> None:
    row = catalogue.entry(name).as_published("pgt-i")
    steps, nodes, after = MEASURED.get(name, (row.steps, row.nodes, row.steps))
    windows = Windows(after, row.horizon, row.horizon)
    assert windows.materialised_bytes(row.nodes, row.node_features, 8) == pytest.approx(row.size_after, rel=2.5e-3)
    stamp = 8 if row.node_features == 2 else 0  # a file of traffic has one channel, and a time stamp a step
    assert steps * (nodes * 8 + stamp) == pytest.approx(row.size_before, rel=4e-3)


@given(st.integers(0, 80), st.integers(1, 5), st.integers(1, 9), st.booleans(), st.integers(0, 3), st.booleans())
def test_every_window_once_an_epoch(count: int, ranks: int, batch: int, local: bool, epoch: int, shuffled: bool) -> None:
    deal = WindowAssignment(range(7, 7 + count), ranks, batch, local, shuffled, seed=5)
    dealt = [deal.starts(rank, epoch) for rank in range(ranks)]
    assert {len(steps) for steps in dealt} == {deal.iterations}
    sizes = np.array([[len(starts) for starts in steps] for steps in dealt], np.int64).reshape(ranks, -1).T
    np.testing.assert_array_equal(sizes, deal.sizes())
    assert sorted(np.concatenate([s for steps in dealt for s in steps] or [[]]).tolist()) == list(range(7, 7 + count))
    if local:
        for rank, steps in enumerate(dealt):
            assert {*np.concatenate(steps or [[]]).tolist()} == {*deal.part(rank)}
            assert all((np.diff(starts) == 1).all() for starts in steps)


def test_global_order_does_not_depend_on_ranks() -> None:
    one, four = WindowAssignment(range(64), 1, 16), WindowAssignment(range(64), 4, 4)
    for step in range(4):
        together = np.concatenate([four.starts(rank, 2)[step] for rank in range(4)])
        np.testing.assert_array_equal(one.starts(0, 2)[step], together)
    assert (one.starts(0, 0)[0] != one.starts(0, 1)[0]).any()


def test_moments_leave_out_what_is_missing_and_weigh_windows() -> None:
    data, windows = signal(holes=0.2), Windows(60, 6, 3)
    period = np.asarray(data.values[: windows.training_steps], np.float64)
    exact = fit_scaler(data, windows)
    np.testing.assert_allclose(exact.mean, np.nanmean(period, (0, 1)), rtol=1e-12)
    np.testing.assert_allclose(exact.deviation, np.nanstd(period, (0, 1)), rtol=1e-12)
    copied = np.stack([data.values[s : s + 6] for s in windows.train]).astype(np.float64)
    weighted = fit_scaler(data, windows, "windows")
    np.testing.assert_allclose(weighted.mean, np.nanmean(copied, (0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(weighted.deviation, np.nanstd(copied, (0, 1, 2)), rtol=1e-12)
    whole = fit_scaler(data, windows, "series")
    np.testing.assert_allclose(whole.mean, np.nanmean(data.values.astype(np.float64), (0, 1)), rtol=1e-12)


@given(st.integers(0, 60), st.sampled_from(["training", "windows", "series"]))
def test_parts_of_moments_add_up(cut: int, period: str) -> None:
    data, windows = signal(holes=0.1), Windows(60, 6, 3)
    whole = measure_moments(data, windows, period)
    parts = measure_moments(data, windows, period, 0, cut) + measure_moments(data, windows, period, cut)
    for name in ("count", "mean", "squares"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-10)


def test_standardised_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    data, windows = signal(holes=0.1), Windows(60, 6, 3)
    whole = standardise(data, fit_scaler(data, windows))
    monkeypatch.setattr("chronoscale.batching.signals.standardisation.BLOCK_BYTES", 100)
    np.testing.assert_allclose(standardise(data, fit_scaler(data, windows)), whole, rtol=1e-6)
    np.testing.assert_array_equal(np.isnan(whole), data.missing)
    np.testing.assert_array_equal(standardise(data, fit_scaler(data, windows), 10, 17), whole[10:17])


def test_constant_and_empty_channels() -> None:
    flat = Signal(np.full((30, 2, 1), 7, np.float32), EDGES)
    assert fit_scaler(flat, Windows(30, 3, 3)).deviation == 1
    gone = Signal(np.full((30, 2, 1), np.nan, np.float32), EDGES, missing=np.ones((30, 2, 1), bool))
    with pytest.raises(UserError, match="channel 0 has no reading"):
        fit_scaler(gone, Windows(30, 3, 3))
    assert len(Windows(30, 3, 27).train) == 1  # the fewest there can be
    assert Scaler.from_moments(Moments(np.ones(1), np.ones(1), np.zeros(1))).deviation == 1


def test_whole_batches_come_in_another_order_every_epoch() -> None:
    """Also where each rank has a part of its own; the same seed and epoch draw the same."""
    deal = WindowAssignment(range(100), ranks=2, batch=5, local=True, seed=1)
    for rank in (0, 1):
        orders = [tuple(int(starts[0]) for starts in deal.starts(rank, epoch)) for epoch in range(4)]
        assert len(set(orders)) == 4 and all(sorted(order) == sorted(orders[0]) for order in orders)
        assert orders[2] == tuple(int(starts[0]) for starts in deal.starts(rank, 2))
