"""Cross-group scheduling: the bound, REAL-G+ and REAL-L against all matchings of few groups, and against each other at length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pairings import KINDS, QUICK, generated, matchings, optimum

from chronoscale.cuda_ext.native.backend import backends
from chronoscale.cuda_ext.reference import matching as matching_reference
from chronoscale.cuda_ext.scheduling.matching import band_matching, exchange
from chronoscale.cuda_ext.scheduling.threshold_search import ThresholdSearch
from chronoscale.errors import UserError
from chronoscale.strategies.real import bound as bounds
from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.real.bound import lower_bound
from chronoscale.strategies.real.check import check
from chronoscale.strategies.real.greedy_plus import algorithm_1, place, search
from chronoscale.strategies.real.seats import makespan, mates, seat
from chronoscale.strategies.snapshots.groups import Placement, deal

problems = st.builds(generated, st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 4), st.sampled_from(KINDS))
alphas = st.sampled_from([0.0, 0.5, 10.0])


@given(problems, st.integers(1, 4), alphas)
def test_the_bound_is_never_above_the_optimum(problem: Benefit, gpus: int, alpha: float) -> None:
    best = optimum(problem, gpus, alpha)
    assert 0 < lower_bound(problem, gpus, alpha) <= best * (1 + 1e-12)


@given(problems, st.integers(1, 4), alphas)
def test_the_search_stands_between_the_optimum_and_algorithm_1(problem: Benefit, gpus: int, alpha: float) -> None:
    achieved = makespan(problem, search(problem, gpus, alpha, QUICK), gpus, alpha)
    assert optimum(problem, gpus, alpha) <= achieved * (1 + 1e-12)
    assert achieved <= makespan(problem, mates(algorithm_1(problem, gpus)), gpus, alpha) * (1 + 1e-12)


def test_the_search_finds_most_optima() -> None:
    """Not a promise of the search, but of its use: of 60 small problems nearly all are solved, none is far off."""
    over = []
    for seed in range(60):
        problem, gpus = generated(seed, 7, 3, KINDS[seed % 5]), 1 + seed % 4
        over.append(makespan(problem, search(problem, gpus, work=QUICK), gpus) / optimum(problem, gpus) - 1)
    assert np.mean(np.array(over) < 1e-9) >= 0.9 and max(over) < 0.1


@pytest.mark.sample(1)
@pytest.mark.parametrize("levels", [1, 3, 16])
def test_thinned_levels_stay_below(monkeypatch: pytest.MonkeyPatch, levels: int) -> None:
    monkeypatch.setattr(bounds, "LEVELS", levels)
    for seed in range(40):
        problem, gpus = generated(seed, 7, 3, KINDS[seed % 5]), 1 + seed % 4
        assert lower_bound(problem, gpus) <= optimum(problem, gpus)


@pytest.mark.sample(1)
@pytest.mark.parametrize("width", [1, 2])
def test_a_band_wider_than_the_states_is_bounded(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(bounds, "MAX_WIDTH", width)
    for seed in range(60):
        problem, gpus = generated(seed, 7, 5, KINDS[seed % 5]), 1 + seed % 4
        assert lower_bound(problem, gpus) <= optimum(problem, gpus)


def test_one_gpu_is_the_most_saving_matching() -> None:
    """On one GPU the makespan is the sum of loads: the band's exact matching is the optimum, and bound and search must meet there."""
    problem = generated(1, 300, 3, "even")
    best = problem.times.sum() - band_matching(problem.reuse)[1]
    assert lower_bound(problem, 1) == pytest.approx(best, rel=1e-8)
    assert makespan(problem, search(problem, 1, work=QUICK), 1) == pytest.approx(best, rel=1e-12)


@pytest.mark.sample(1)
@pytest.mark.parametrize("gpus", [4, 64, 300, 700])
def test_never_worse_than_algorithm_1_at_length(gpus: int) -> None:
    for kind in ("even", "one long"):
        problem = generated(gpus, 600, 3, kind)
        achieved = makespan(problem, search(problem, gpus, work=QUICK), gpus)
        assert lower_bound(problem, gpus) <= achieved <= makespan(problem, mates(algorithm_1(problem, gpus)), gpus) * (1 + 1e-12)


@given(problems)
def test_band_matching_is_the_best_of_all(problem: Benefit) -> None:
    weight = problem.reuse - 0.2
    n, width = weight.shape
    best = max(sum(max(0.0, weight[a, b - a - 1]) for a, b in matching if 0 <= b - a - 1 < width) for matching in matchings(list(range(n))))
    mate, total = band_matching(weight)
    assert total == pytest.approx(best, abs=1e-12)
    other = np.empty(n, np.int32)
    assert matching_reference.band(weight, other) == total
    np.testing.assert_array_equal(mate, other)


@given(
    st.builds(generated, st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 4), st.sampled_from(KINDS)),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 2**64 - 1),
)
@example(generated(0, 1, 1, "even"), 3, 0.0, 0)
def test_exchange_equals_its_reference(problem: Benefit, gpus: int, alpha: float, seed: int) -> None:
    if "cpu" not in backends():
        pytest.skip("backend 'cpu' is not available on this machine")
    start = mates(deal(len(problem.times), gpus, 2))
    search = ThresholdSearch(20_000, pull=0.3, threshold=0.05, seed=seed)
    mate, value = exchange(problem.times, problem.reuse, gpus, start, search, alpha)
    other = start.copy()
    expected = matching_reference.exchange(problem.times, problem.reuse, gpus, alpha, search, other)
    assert value == expected
    np.testing.assert_array_equal(mate, other)
    assert value == pytest.approx(makespan(problem, mate, gpus, alpha), rel=1e-9)
    assert value <= makespan(problem, start, gpus, alpha) * (1 + 1e-12)


def test_the_search_repeats() -> None:
    problem = generated(5, 200, 3, "even")
    np.testing.assert_array_equal(search(problem, 8, work=QUICK), search(problem, 8, work=QUICK))


@given(problems, st.integers(1, 4), alphas)
def test_the_checker_agrees_with_the_seats(problem: Benefit, gpus: int, alpha: float) -> None:
    start = mates(deal(len(problem.times), gpus, 2))
    assert check(seat(problem, start, gpus), problem, alpha) == pytest.approx(makespan(problem, start, gpus, alpha), rel=1e-12)
    dealt = check(deal(len(problem.times), gpus, 2), problem, alpha)
    assert makespan(problem, start, gpus, alpha) <= dealt * (1 + 1e-12)  # falling loads are the best order


def test_the_checker_refuses() -> None:
    problem = generated(0, 4, 2, "even")
    fine = deal(4, 2, 2)
    with pytest.raises(UserError, match="group 3 does not train"):
        check(deal(3, 2, 2), problem)
    with pytest.raises(UserError, match="no group 4"):
        check(deal(5, 2, 2), problem)
    crowded = object.__new__(Placement)  # what Placement itself refuses
    for name, column in (("ranks", 2), ("rank", fine.rank * 0), ("iteration", fine.iteration), ("slot", fine.slot)):
        object.__setattr__(crowded, name, column)
    with pytest.raises(UserError, match="GPU 0 holds groups 0, 1, 2, 3 in iteration 0"):
        check(crowded, problem)
    object.__setattr__(crowded, "rank", fine.rank + 1)
    with pytest.raises(UserError, match="group 2 is on GPU 2 in iteration 0"):
        check(crowded, problem)


def test_nonsense_is_refused() -> None:
    problem = generated(0, 4, 2, "even")
    for refuse in (lambda: lower_bound(problem, 0), lambda: place(problem, 0)):
        with pytest.raises(UserError):
            refuse()
    with pytest.raises(UserError, match="groups 0 and a later one save more than both take"):
        lower_bound(Benefit(problem.times, problem.reuse * 0 + 100), 2)
    with pytest.raises(UserError, match="not a matching"):
        exchange(problem.times, problem.reuse, 2, np.array([1, 2, 1, -1], np.int32), ThresholdSearch(10))
    with pytest.raises(UserError, match="at most 12"):
        band_matching(np.zeros((4, 13)))
    with pytest.raises(UserError, match="too large to be added up"):
        band_matching(np.full((50, 12), 1e308))
