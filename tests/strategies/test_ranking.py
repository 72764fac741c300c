from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.strategies.evaluation.ranking import EpochTimes, compare_pairs, rank_correlation


def of(name: str, predicted: float, measured: float, spread: float = 0.0, repeats: int = 5) -> EpochTimes:
    return EpochTimes(name, predicted, measured, spread, repeats)


def test_a_pair_by_hand():
    found = compare_pairs([of("slow", 3.0, 2.5, 0.1), of("fast", 1.5, 2.0, 0.2)])
    assert [pair[:5] for pair in found] == [("fast", "slow", 1.25, 2.0, pytest.approx(0.15))] and found[0].order == "right"


@pytest.mark.parametrize(
    ("predicted", "spread", "repeats", "order"),
    [
        (1.1, 0.4, 5, "right"),
        (0.9, 0.4, 5, "wrong"),
        (1.0, 0.4, 5, "predicted alike"),
        (0.9, 0.5, 5, "within spread"),
        (1.1, 0.0, 1, "one repeat"),
    ],
)
def test_only_differences_beyond_the_spread_of_repeats_have_an_order(predicted, spread, repeats, order):
    """Measured: 2 and 3 s; the spreads of both are added up."""
    assert compare_pairs([of("a", 1.0, 2.0, spread), of("b", predicted, 3.0, spread, repeats)])[0].order == order


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=7))
def test_kendalls_tau_is_concordant_less_discordant_pairs(times):
    found = [of(str(i), float(p), float(m)) for i, (p, m) in enumerate(times)]
    products = [(a.predicted_s - b.predicted_s) * (a.measured_s - b.measured_s) for a, b in combinations(found, 2)]
    untied = [sum(getattr(a, name) != getattr(b, name) for a, b in combinations(found, 2)) for name in ("predicted_s", "measured_s")]
    tau = rank_correlation(found)
    if min(untied) == 0:
        assert math.isnan(tau)
    else:
        assert tau == pytest.approx((sum(p > 0 for p in products) - sum(p < 0 for p in products)) / math.sqrt(untied[0] * untied[1]))
    assert len(compare_pairs(found)) == len(products)


def test_one_strategy_has_no_order():
    assert math.isnan(rank_correlation([of("a", 1.0, 1.0)])) and compare_pairs([of("a", 1.0, 1.0), of("b", math.nan, 1.0)]) == []
