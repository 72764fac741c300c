"""Greedy search for K and alpha (FlareDTDG §3.5), against a second reading of it and on landscapes whose lowest point is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.errors import UserError
from chronoscale.strategies.flaredtdg.tuning import TuningResult, tune

START = Decay(2, 6, 0.1)


def always(decay: Decay) -> bool:
    return True


def bowl(full: float, alpha: float) -> Callable[[Decay], float]:
    """Convex in both, as the paper finds it (Figure 8)."""
    return lambda decay: (decay.full - full) ** 2 + 10 * (decay.alpha - alpha) ** 2


@pytest.mark.parametrize(("full", "alpha"), [(2, 0.1), (5, 0.1), (1, 0.1), (3, 0.7), (1, 1.0), (7, 0.4)])
def test_it_ends_at_the_lowest_point_of_a_bowl(full: int, alpha: float) -> None:
    found = tune(START, bowl(full, alpha), always)
    assert found.decay == Decay(full, 8 - full, alpha) and found.loss == pytest.approx(0)
    assert found.trials[0].taken and (found.trials[0].full, found.trials[0].alpha) == (2, 0.1)


def by_hand(window: int, loss: dict[tuple[int, int], float], most: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """Another reading of §3.5: the path of the search, in (K, tenths of alpha)."""
    path = [(min(2, window), 1)]
    while True:
        k, a = path[-1]
        near = [(k + 1, a), (k - 1, a)] + ([(k, a + 1), (k, a - 1)] if k < window else [])
        near = [one for one in near if 0 < one[0] <= window and 0 < one[1] <= 10 and most(*one)]
        falls = {one: loss[path[-1]] - loss[one] for one in near if not math.isnan(loss[one])}
        steepest = max(falls.values(), default=0.0)
        if steepest <= 0:
            return path
        path.append(next(one for one in near if falls.get(one) == steepest))


@given(window=st.integers(1, 6), values=st.permutations(range(60)), lost=st.sets(st.integers(0, 59)), budget=st.integers(3, 70))
def test_any_landscape(window: int, values: list[int], lost: set[int], budget: int) -> None:
    """No two settings alike, some without a loss, some that do not fit; each is trained once, and nothing that does not fit."""
    places = [(k, a) for k in range(1, 7) for a in range(1, 11)]
    loss = {place: math.nan if value in lost else float(value) for place, value in zip(places, values, strict=True)}
    loss[min(2, window), 1] = float(values[0]) + 0.5  # has one
    asked: list[tuple[int, int]] = []

    def fits(k: int, a: int) -> bool:
        return (k, a) == (min(2, window), 1) or k * 10 + a <= budget

    def at(decay: Decay) -> tuple[int, int]:
        assert decay.window == window and decay.decayed == window - decay.full
        return decay.full, round(10 * decay.alpha)

    def trained(decay: Decay) -> float:
        assert fits(*at(decay))
        asked.append(at(decay))
        return loss[at(decay)]

    found = tune(Decay(1, window - 1, 0.5), trained, lambda decay: fits(*at(decay)))
    path = by_hand(window, loss, fits)
    assert at(found.decay) == path[-1] and found.loss == loss[path[-1]]
    assert {(trial.full, round(10 * trial.alpha)) for trial in found.trials if trial.taken} == set(path)
    assert len(asked) == len(set(asked)) == sum(trial.fits for trial in found.trials)
    assert [trial.loss is None for trial in found.trials] == [not trial.fits for trial in found.trials]
    assert [trial.step for trial in found.trials] == sorted(trial.step for trial in found.trials)
    if window > 1:
        assert max(trial.step for trial in found.trials) <= len(path)


def test_the_steepest_neighbour_is_taken() -> None:
    values = {(2, 0.1): 5.0, (3, 0.1): 4.0, (1, 0.1): 4.5, (2, 0.2): 3.0}
    found = tune(START, lambda decay: values.get((decay.full, decay.alpha), 9.0), always)
    assert found.decay == Decay(2, 6, 0.2) and [trial.taken for trial in found.trials[:4]] == [True, False, False, True]


def test_what_does_not_fit_is_not_trained_and_not_walked_through() -> None:
    """The lowest point lies behind a wall."""

    def loss(decay: Decay) -> float:
        assert decay.full <= 3
        return bowl(5, 0.1)(decay)

    found = tune(START, loss, lambda decay: decay.full <= 3)
    assert found.decay.full == 3
    refused = [trial for trial in found.trials if not trial.fits]
    assert [(trial.full, trial.loss, trial.taken) for trial in refused] == [(4, None, False)]


def test_equal_is_not_better() -> None:
    found: TuningResult = tune(START, lambda decay: 1.0, always)
    assert found.decay == Decay(2, 6, 0.1) and len(found.trials) == 4


@pytest.mark.parametrize(
    ("start", "loss", "fits", "said"),
    [
        (START, 1.0, False, "the first setting, full 2 and alpha 0.1, does not fit in memory; nothing can be compared with it"),
        (START, math.nan, True, "the first setting, full 2 and alpha 0.1, has no validation loss; nothing can be compared with it"),
        (Decay(2, 6, 0.1, (5,)), 1.0, True, "it looks for how much older snapshots keep; leave out training.lags, got [5]"),
    ],
)
def test_what_cannot_be_tuned(start: Decay, loss: float, fits: bool, said: str) -> None:
    with pytest.raises(UserError) as error:
        tune(start, lambda decay: loss, lambda decay: fits)
    assert str(error.value) == f"training.tune: {said}"
