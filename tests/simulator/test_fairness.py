"""Speeds of activities side by side, against linear programs and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from chronoscale.simulator.sharing.resources import speeds


def rates(share: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Of activities that take share[a, r] of resource r: what has a weight gets so much for each one's 1."""
    entries = [{r: s for r, s in enumerate(row) if s} for row in share.tolist()]
    return np.array(speeds(entries, [1.0] * len(share) if weight is None else (1 / weight).tolist()))


def lexicographic(share: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """By linear programs: the least speed for its weight as high as can be, then, of those that can rise, the next."""
    activities, fixed = len(share), {}
    while len(fixed) < activities:
        rising = [a for a in range(activities) if a not in fixed]
        bounds = [(fixed[a], fixed[a]) if a in fixed else (0, 1) for a in range(activities)] + [(0, None)]
        above = np.zeros((len(rising), activities + 1))  # level * weight <= speed, unless that is whole
        above[range(len(rising)), rising], above[:, -1] = -1, weight[rising]
        full = np.hstack([share.T, np.zeros((share.shape[1], 1))])
        limits = np.concatenate([np.ones(share.shape[1]), np.zeros(len(rising))])
        level = linprog([0] * activities + [-1], np.vstack([full, above]), limits, bounds=bounds)
        optimum = -level.fun
        stuck = {}
        for a in rising:
            least = [(fixed[b], fixed[b]) if b in fixed else (min(optimum * weight[b], 1) - 1e-12, 1) for b in range(activities)]
            most = -linprog([-(b == a) for b in range(activities)], share.T, np.ones(share.shape[1]), bounds=least).fun
            if most <= optimum * weight[a] + 1e-9:
                stuck[a] = min(optimum * weight[a], 1.0)
        assert stuck
        fixed |= stuck
    return np.array([fixed[a] for a in range(activities)])


@st.composite
def instances(draw: st.DrawFn, most: int = 5) -> tuple[np.ndarray, np.ndarray]:
    shape = draw(st.integers(1, most)), draw(st.integers(1, 4))
    share = draw(arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.0, 0.25, 0.5, 0.7, 1.0])))
    return share, draw(arrays(np.float64, shape[0], elements=st.sampled_from([0.25, 0.5, 1.0])))


@given(instances())
def test_rates_are_those_of_linear_programs(instance):
    share, weight = instance
    assert rates(share, weight) == pytest.approx(lexicographic(share, weight), abs=1e-7)


@given(instances(most=12))
def test_who_is_slowed_down_has_a_full_resource_on_which_nobody_has_more(instance):
    share, weight = instance
    speed = rates(share, weight)
    used = (share * speed[:, None]).sum(axis=0)
    assert (speed > 0).all() and (speed <= 1).all() and (used <= 1 + 1e-9).all()
    for a in np.flatnonzero(speed < 1 - 1e-12):
        level = speed[a] / weight[a]
        full = np.flatnonzero((share[a] > 0) & (used >= 1 - 1e-9))
        assert any((speed[share[:, r] > 0] / weight[share[:, r] > 0] <= level + 1e-9).all() for r in full)


@pytest.mark.slow
@given(instances(), st.randoms(use_true_random=False))
def test_order_and_idle_resources_change_nothing(instance, random):
    share, weight = instance
    order = list(range(len(share)))
    random.shuffle(order)
    wider = np.hstack([share, np.zeros((len(share), 2))])
    assert rates(wider[order], weight[order]) == pytest.approx(rates(share, weight)[order], rel=1e-12)


def test_two_flows_on_a_link():
    assert rates(np.array([[1.0], [1.0]])) == pytest.approx([0.5, 0.5], rel=1e-9)
    assert rates(np.array([[1.0], [0.25]])) == pytest.approx([0.8, 0.8], rel=1e-9)  # at 0.8 of their speeds they fill it
    assert rates(np.array([[0.5], [0.25]])).tolist() == [1.0, 1.0]


def test_a_fan_in():
    """Seven send to one, whose card is full; an eighth flow leaves by a card of its own."""
    share = np.zeros((8, 9))
    share[range(8), range(8)] = 1
    share[:7, 8] = 1
    assert rates(share) == pytest.approx([1 / 7] * 7 + [1.0], rel=1e-9)


def test_pcie_sharing():
    """Eight copies of 63 GB/s, two a switch of 63 GB/s, four a socket of 100 GB/s: the sockets are fuller than the switches."""
    share = np.zeros((8, 14))
    share[range(8), range(8)] = 1  # buses
    share[range(8), 8 + np.arange(8) // 2] = 1  # switches
    share[range(8), 12 + np.arange(8) // 4] = 63 / 100
    assert rates(share) == pytest.approx([100 / 63 / 4] * 8, rel=1e-9)
    assert rates(share[:3]) == pytest.approx([0.5, 0.5, 100 / 63 - 1], rel=1e-9)


def test_what_is_left_goes_to_who_can_use_it():
    share = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    assert rates(share) == pytest.approx([2 / 3, 1 / 3, 1 / 3, 1 / 3], rel=1e-9)
    assert rates(np.array([[1.0], [1.0]]), np.array([1.0, 0.5])) == pytest.approx([2 / 3, 1 / 3], rel=1e-9)


def test_nothing_to_share():
    assert rates(np.zeros((0, 3))).tolist() == [] and rates(np.zeros((2, 0))).tolist() == [1.0, 1.0]
