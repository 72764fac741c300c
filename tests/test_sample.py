"""Samples of parametrised tests: which cases the fast tier runs."""

from __future__ import annotations

import pytest
from sample import spread

pytest_plugins = ["pytester"]


def test_places_are_spread() -> None:
    assert spread(10, 1) == {0} and spread(10, 2) == {0, 9} and spread(9, 3) == {0, 4, 8}
    assert spread(3, 3) == spread(3, 7) == {0, 1, 2} and spread(1, 1) == {0}
    assert all(len(spread(count, wanted)) == min(count, wanted) for count in range(1, 40) for wanted in range(1, 40))


def test_what_is_not_in_the_sample_is_slow(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.sample(2)
        @pytest.mark.parametrize("case", [0, 1, 2, pytest.param(3, marks=pytest.mark.slow), 4])
        def test_sampled(case):
            assert case in (0, 4)

        @pytest.mark.parametrize("case", range(3))
        def test_whole(case):
            pass
    """)
    options = ("-p", "sample", "-p", "no:budget", "-W", "ignore", "--import-mode=prepend")
    pytester.runpytest(*options, "-m", "not slow").assert_outcomes(passed=5, deselected=3)
    pytester.runpytest(*options, "-m", "slow").assert_outcomes(failed=3, deselected=5)
