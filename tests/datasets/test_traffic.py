"""Traffic-like signals: a seed is a signal, a shorter one its prefix, with rush hours, memory and lost stretches."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from chronoscale.datasets import catalogue, store
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.errors import UserError

LARGE = TrafficSignal(700, 600, 2, 0.1, seed=3)  # two blocks


def test_a_seed_is_a_signal_and_a_shorter_one_its_prefix():
    assert len(list(LARGE)) > 1
    values = LARGE.signal().values
    assert_array_equal(values, LARGE.signal().values)
    assert_array_equal(TrafficSignal(700, 450, 2, 0.1, seed=3).signal().values, values[:450])
    assert not np.array_equal(TrafficSignal(700, 600, 2, 0.1, seed=4).signal().values, values, equal_nan=True)


def test_readings_are_lost_at_their_rate_in_stretches():
    signal = LARGE.signal()
    absent = signal.missing[:, :, 0]
    assert absent.mean() == pytest.approx(0.1, rel=0.1)
    assert not signal.missing[:, :, 1].any()
    assert (absent[1:] & absent[:-1]).sum() / absent[1:].sum() > 0.9
    assert_array_equal(signal.values[:288, 0, 1], (np.arange(288) / 288).astype(np.float32))


@pytest.mark.parametrize(("sensors", "steps", "share"), [(1_000, 1_500, 0.4), (20_000, 130, 0.05)])
def test_blocks_leave_no_seam(sensors, steps, share):
    generator = TrafficSignal(sensors, steps, missing=share, seed=2)
    blocks = [block[:, :, 0] for block in generator]
    speeds = np.concatenate(blocks)
    gone = np.isnan(speeds)
    assert gone.mean() == pytest.approx(share, rel=0.1)
    seam = np.cumsum([len(block) for block in blocks])[:-1]
    assert len(seam) > 3
    goes_on = gone[1:] & gone[:-1]
    assert goes_on[seam - 1].mean() == pytest.approx(goes_on.mean(), rel=0.2)  # stretches go on into the next block
    step = np.abs(np.diff(speeds, axis=0))
    assert np.nanmean(step[seam - 1]) < 1.2 * np.nanmean(step)  # and so does the noise


def test_speeds_dip_on_weekday_mornings_and_remember():
    speeds = TrafficSignal(40, 288 * 7, seed=1).signal().values[:, :, 0].reshape(7, 288, 40)
    assert ((speeds >= 3) & (speeds <= 75)).all()
    night, morning = speeds[:, 24:48].mean((1, 2)), speeds[:, 92:100].mean((1, 2))
    assert (night - morning > 5)[:5].all()
    assert (abs(night - morning) < 3)[5:].all()
    noise = speeds[6].astype(np.float64) - speeds[6].mean(0)  # a Sunday has nothing else
    assert np.mean(noise[1:] * noise[:-1]) / np.mean(noise**2) == pytest.approx(0.9, abs=0.05)


@pytest.mark.slow
def test_the_graph_is_directed_and_weighs_near_sensors_more():
    edges, weight = TrafficSignal(50, 1).graph()
    assert_array_equal(np.bincount(edges[1]), 8)
    assert ((weight > 0) & (weight <= 1)).all()
    pairs = set(map(tuple, edges.T.tolist()))
    assert any((v, u) not in pairs for u, v in pairs)
    assert (weight[edges[0] == edges[1]] == 1).all()
    assert TrafficSignal(1, 3).signal().num_nodes == 1


def test_it_is_written_block_by_block_and_found_by_name(tmp_path):
    store.save_signal(tmp_path / "d", LARGE, *LARGE.graph(), "traffic", LARGE.calendar)
    assert_array_equal(store.load(tmp_path / "d").values, LARGE.signal().values)
    assert store.load(tmp_path / "d").calendar == LARGE.signal().calendar == LARGE.channels - 1
    signal = catalogue.load("traffic_small", seed=2)
    assert (signal.name, signal.values.shape) == ("traffic_small", (2000, 50, 1))
    with pytest.raises(UserError, match="is of the family signals, not a sequence"):
        catalogue.iterate_snapshots("traffic_small")
    for wrong in ({"channels": 3}, {"missing": 1.0}, {"steps": 0}):
        with pytest.raises(UserError, match="traffic: "):
            TrafficSignal(**{"sensors": 5, "steps": 5, **wrong})
