"""Joint draws: the same for all strategies, and conclusions that say what was drawn."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from chronoscale.simulator.uncertainty.assumptions import Assumption
from chronoscale.simulator.uncertainty.joint import JointResult, places


def assumption(name: str, low: float, high: float, log: bool = False, whole: bool = False) -> Assumption:
    return Assumption(name, low, high, "{:.3g}", "a test", lambda _: None, lambda scenario, _: scenario, log=log, whole=whole)


def test_places_are_spread_and_the_first_ones_stay() -> None:
    """Of 64 draws every 64th part of each range has one; more draws begin with the same."""
    drawn = places(64, 5, 3)
    assert drawn.shape == (64, 5) and all(sorted(np.floor(column * 64).tolist()) == list(range(64)) for column in drawn.T)
    assert np.array_equal(places(256, 5, 3)[:64], drawn) and np.array_equal(places(50, 5, 3), drawn[:50])
    assert not np.array_equal(places(64, 5, 4), drawn)


def test_values_are_even_in_their_range_or_in_its_logarithm() -> None:
    assert assumption("a", 2, 4).value(0.25) == 2.5 and assumption("a", 0.5, 2, log=True).value(0.5) == pytest.approx(1)
    whole = assumption("a", 1, 2, whole=True)
    assert [whole.value(place) for place in (0, 0.49, 0.51, 1)] == [1, 1, 2, 2]


RANGES = (assumption("a", 0, 10), assumption("b", 0.25, 4, log=True), assumption("c", 0, 3, whole=True))
USUAL = (2.0, 1.0, 0.0)


def epoch(name: str, a: float, b: float, c: float) -> float:
    """Of one strategy; the other takes one second. They are as fast at a = 6, and at b = 2 by three halves of its logarithm, never by c."""
    return 1.0 if name == "fast" else 1.5 - (a - 2) / 8 - np.log2(b) / 2 + c / 10


def result(draws: int = 256, seed: int = 0) -> JointResult:
    values = np.array([[one.value(place) for one, place in zip(RANGES, row, strict=True)] for row in places(draws, 3, seed)])

    def single(name: str, which: int, value: float) -> float:
        return epoch(name, *(value if i == which else usual for i, usual in enumerate(USUAL)))

    names = ("slow", "fast")
    return JointResult(
        RANGES,
        {name: epoch(name, *USUAL) for name in names},
        {name: np.array([epoch(name, *row) for row in values]) for name in names},
        {name: np.array([[single(name, i, end) for end in (one.low, one.high)] for i, one in enumerate(RANGES)]) for name in names},
    )


def single(name: str, which: int, value: float) -> float:
    return epoch(name, *(value if i == which else usual for i, usual in enumerate(USUAL)))


def test_a_conclusion_says_share_band_and_flip_points() -> None:
    joint = result()
    conclusion = joint.conclude(("slow", "fast"), single, USUAL)
    ratio = joint.drawn_s["slow"]
    assert (conclusion.faster, conclusion.slower, conclusion.usual) == ("fast", "slow", 1.5)
    assert conclusion.share == np.mean([one > 1 for one in ratio]) and 0.3 < conclusion.share < 0.9
    assert (conclusion.low, conclusion.middle, conclusion.high) == tuple(np.percentile(ratio, [5, 50, 95]))
    by_name = {flip.assumption: flip for flip in conclusion.flips}
    assert set(by_name) == {"a", "b"} and conclusion.near is None
    assert by_name["a"].value == pytest.approx(6, abs=8 / 2**6) and by_name["b"].value == pytest.approx(2, rel=0.05)
    assert epoch("slow", by_name["a"].value, 1, 0) < 1  # the order has turned there
    assert [flip.assumption for flip in conclusion.flips] == ["b", "a"]  # a quarter of its range from the usual value, and four tenths
    words = str(conclusion)
    assert f"fast is faster than slow in {conclusion.share:.0%} of 256 joint draws of 3 assumptions" in words
    assert "It turns with b at 2" in words and "(usually 1)" in words


def test_what_nothing_turns_says_what_comes_nearest() -> None:
    """With c alone nothing comes nearer than usual; with a little of a its upper end does."""
    mild = JointResult(
        RANGES,
        {"fast": 1.0, "slow": 1.5},
        {"fast": np.ones(4), "slow": np.array([1.2, 1.3, 1.4, 1.5])},
        {"fast": np.ones((3, 2)), "slow": np.array([[1.6, 1.1], [1.4, 1.6], [1.5, 1.5]])},
    )
    conclusion = mild.conclude(("fast", "slow"), single, USUAL)
    assert (conclusion.share, conclusion.flips) == (1.0, ()) and conclusion.near is not None
    assert (conclusion.near.assumption, conclusion.near.shown, conclusion.near.ratio) == ("a", "10", pytest.approx(1.1))
    assert "No assumption turns it by itself at either end of its range; nearest, a at 10: 1.1 times" in str(conclusion)
    assert (conclusion.low, conclusion.middle, conclusion.high) == (1.2, pytest.approx(1.35), 1.5)  # of four draws, all
    assert "1.2 to 1.5 times as fast in all draws, 1.5 as usually assumed" in str(conclusion)
    still = replace(mild, ends_s={"fast": np.ones((3, 2)), "slow": np.full((3, 2), 1.5)})
    assert still.conclude(("fast", "slow"), single, USUAL).near is None


def test_ties_and_shares_that_are_nearly_all_are_not_told_as_more() -> None:
    usual = {"a": 1.0, "b": 1.0}
    ends = {name: np.ones((3, 2)) for name in usual}
    tied = JointResult(RANGES, usual, {name: np.ones(4) for name in usual}, ends).conclude(("a", "b"), single, USUAL)
    assert str(tied) == "a is as fast as b in all of 4 joint draws"
    drawn = {"a": np.ones(256), "b": np.concatenate([np.full(255, 1.2), [0.9]])}
    nearly = JointResult(RANGES, {"a": 1.0, "b": 1.2}, drawn, ends).conclude(("a", "b"), single, USUAL)
    assert "in more than 99% of 256 joint draws" in str(nearly)


def test_noise_turns_an_order_by_the_end_of_its_range() -> None:
    """It is drawn, so that no value between is looked for."""
    noise = (RANGES[0]._replace(noise=True),)
    ends = {"fast": np.ones((1, 2)), "slow": np.array([[1.5, 0.9]])}
    joint = JointResult(noise, {"fast": 1.0, "slow": 1.5}, {"fast": np.ones(2), "slow": np.full(2, 1.5)}, ends)
    (flip,) = joint.conclude(("fast", "slow"), lambda *_: pytest.fail("looked for"), (2.0,)).flips
    assert (flip.value, flip.shown, flip.usually) == (10, "10", "2")


def test_assumptions_that_move_neither_are_not_counted() -> None:
    """One of three moves the slower; a share below a half, and one in a tie, are told as such."""
    ends = {"fast": np.ones((3, 2)), "slow": np.array([[1.5, 1.5], [1.5, 1.6], [1.5, 1.5]])}
    drawn = {"fast": np.ones(30), "slow": np.concatenate([np.full(9, 1.2), np.full(6, 1.0), np.full(15, 0.8)])}
    conclusion = JointResult(RANGES, {"fast": 1.0, "slow": 1.5}, drawn, ends).conclude(("fast", "slow"), single, USUAL)
    assert (conclusion.assumptions, conclusion.share, conclusion.tied) == (1, 0.3, 0.2)
    assert "in only 30% of 30 joint draws of 1 assumptions: 0.8 to 1.2 times as fast in the middle 90 % of the draws" in str(conclusion)
    assert str(conclusion).endswith("No assumption lowers it by itself")


def test_whole_numbers_turn_at_a_whole_number() -> None:
    def counted(name: str, which: int, value: float) -> float:
        return 1.0 if name == "fast" else 1.5 - 0.3 * value

    ends = {"fast": np.ones((1, 2)), "slow": np.array([[1.5, 0.6]])}
    joint = JointResult(RANGES[2:], {"fast": 1.0, "slow": 1.5}, {"fast": np.ones(2), "slow": np.full(2, 1.5)}, ends)
    (flip,) = joint.conclude(("fast", "slow"), counted, (0.0,)).flips
    assert flip.value == 2.0 and [counted("slow", 0, value) < 1 for value in (1, 2)] == [False, True]


def test_bands_get_no_narrower_by_more_draws_of_other_seeds() -> None:
    """Medians of several seeds lie together: what is drawn is the ranges, not the seed."""
    middles = [result(256, seed).conclude(("slow", "fast"), single, USUAL).middle for seed in range(4)]
    assert all(abs(one - other) < 0.05 for one, other in pairwise(middles))
