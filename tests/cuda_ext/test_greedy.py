from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.cuda_ext.native.backend import backends
from chronoscale.cuda_ext.reference import greedy as greedy_reference
from chronoscale.cuda_ext.scheduling.greedy import Pairing, Ties, pair_groups
from chronoscale.errors import UserError

Problem = tuple[np.ndarray, np.ndarray, int, int]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Small integers, for many exact ties, or reals, for rounding."""
    count, width = draw(st.integers(0, 45)), draw(st.integers(0, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        times, reuse = rng.integers(0, 12, count).astype(float), rng.integers(0, 4, (count, width)).astype(float)
    else:
        times, reuse = rng.lognormal(0, 0.5, count), rng.random((count, width)) * 0.5
    return times, reuse, draw(st.integers(1, 9)), draw(st.integers(0, 6))


def reference(times: np.ndarray, reuse: np.ndarray, gpus: int, max_targets: int, ties: Ties = "first") -> Pairing:
    columns = [np.zeros(len(times), dtype=np.int32) for _ in range(3)]
    greedy_reference.schedule(times.tolist(), reuse.tolist(), gpus, max_targets, ties == "reuse", *columns)
    return Pairing(*columns)


def assert_same(a: Pairing, b: Pairing) -> None:
    np.testing.assert_array_equal(a.iteration, b.iteration)
    np.testing.assert_array_equal(a.gpu, b.gpu)
    np.testing.assert_array_equal(a.slot, b.slot)


@given(problems(), st.sampled_from(get_args(Ties)))
def test_equals_the_algorithm_line_by_line(problem: Problem, ties: Ties) -> None:
    assert_same(pair_groups(*problem, ties=ties), reference(*problem, ties))


@pytest.mark.slow
@pytest.mark.parametrize("ties", get_args(Ties))
@pytest.mark.parametrize(("gpus", "max_targets"), [(4, 0), (32, 0), (200, 0), (4, 8)])
def test_equals_it_at_length(gpus: int, max_targets: int, ties: Ties) -> None:
    rng = np.random.default_rng(0)
    times = np.sort(rng.lognormal(0, 0.4, 250))  # neighbours in rank are neighbours in time: reuse bends the searches
    problem = times, np.stack([times * f for f in (0.6, 0.4, 0.2)], axis=1), gpus, max_targets
    assert_same(pair_groups(*problem, ties=ties), reference(*problem, ties))


@given(problems())
def test_every_group_runs_once_and_gpus_hold_two(problem: Problem) -> None:
    times, _, gpus, _ = problem
    plan = pair_groups(*problem)
    places = set(zip(plan.iteration.tolist(), plan.gpu.tolist(), plan.slot.tolist(), strict=True))
    assert len(places) == len(times)
    assert all(gpu < gpus and slot < 2 for _, gpu, slot in places)
    assert all((iteration, gpu, 0) in places for iteration, gpu, _ in places)
    assert len(set(plan.iteration.tolist())) == plan.iteration.max(initial=-1) + 1


@pytest.mark.slow
def test_threads_do_not_matter() -> None:
    if "cpu" not in backends():
        pytest.skip("backend 'cpu' is not available on this machine")
    rng = np.random.default_rng(1)
    times, reuse = rng.integers(1, 50, 900).astype(float), rng.integers(0, 9, (900, 3)).astype(float)
    assert_same(pair_groups(times, reuse, 8, threads=1), pair_groups(times, reuse, 8, threads=3))


def test_one_gpu_takes_the_pair_that_saves_most_or_the_first() -> None:
    """Every target wastes nothing: as printed the first one, the longest group with the zero group, is kept, and all run alone."""
    problem = np.array([1.0, 1.0, 4.0]), np.array([[0.0], [0.9], [0.0]]), 1
    paired, printed = pair_groups(*problem, ties="reuse"), pair_groups(*problem)
    assert paired.iteration.tolist() == [1, 0, 0] and paired.slot.tolist() == [0, 0, 1]
    assert printed.iteration.tolist() == [2, 1, 0] and printed.slot.tolist() == [0, 0, 0]


def test_the_first_target_of_least_waste_is_kept() -> None:
    """Two GPUs: 8 alone beside 2 with 6 wastes nothing, and comes first; neither does 8 with 2 beside 5 with 6, which save 1."""
    times, reuse = np.array([3.0, 2.0, 8.0, 5.0, 6.0]), np.zeros((5, 1))
    reuse[3] = 1.0
    first, most = pair_groups(times, reuse, 2), pair_groups(times, reuse, 2, ties="reuse")
    assert first.iteration.tolist() == [1, 0, 0, 1, 0] and first.gpu.tolist() == [1, 1, 0, 0, 1]
    assert most.iteration.tolist() == [1, 0, 0, 0, 0] and most.gpu.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("times", "reuse", "gpus"),
    [
        ([1.0], [[0.0], [0.0]], 1),
        ([-1.0], [[0.0]], 1),
        ([np.nan], [[0.0]], 1),
        ([1.0], [[np.inf]], 1),
        ([1.0], [[0.0]], 0),
        ([1.0], [[0.0]], 2**32 + 1),
        ([1e308, 1e308, 1e308], [[0.0]] * 3, 1),
        ([1e300, 1e300, 1e300], [[0.0]] * 3, 2**31 - 1),
        ([1.0, 1.0, 1.0], [[1.7e308]] * 3, 1),
    ],
)
def test_nonsense_is_refused(times: list[float], reuse: list[list[float]], gpus: int) -> None:
    with pytest.raises(UserError, match="pair_groups"):
        pair_groups(np.array(times), np.array(reuse), gpus)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e300])
def test_numbers_at_the_ends_of_doubles(scale: float) -> None:
    rng = np.random.default_rng(2)
    problem = rng.integers(1, 50, 40) * scale, rng.integers(0, 9, (40, 3)) * scale, 3, 0
    assert_same(pair_groups(*problem), reference(*problem))
