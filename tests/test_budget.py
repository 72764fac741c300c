"""tests/budget.py: what is refused, what is counted, and when a session fails."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

# Time is spent by a server whose counter the plug-in reads: nothing here is as long as what it is said to cost.
CLOCK = """
import sys
from types import SimpleNamespace
import pytest
spent = [0.0]
sys.modules["chronoscale.real_exec.ranks.rank_group"] = SimpleNamespace(spent_s=lambda: spent[0])
@pytest.fixture
def spend():
    return lambda seconds: spent.__setitem__(0, spent[0] + seconds)
@pytest.fixture(scope="module")
def wide():
    spent[0] += WIDE
@pytest.fixture(scope="module")
def wider(wide):
    spent[0] += 1000
"""
TESTS = """
import pytest
def test_dear(spend):
    spend(1000)
@pytest.mark.slow
def test_marked(spend):
    spend(1000)
def test_cheap():
    pass
def test_wide(wide):
    pass
"""
LEFT = """
import gc
class Left:
    def __init__(self, spend):
        self.spend, self.itself = spend, self
    def __del__(self):
        self.spend(1000)
def test_unlucky(spend):
    Left(spend)
    gc.collect()
"""


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """A function that runs tests in a process of its own, with the plug-in alone."""

    def run(tests: str, *options: str, wide: float = 0.0) -> pytest.RunResult:
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        pytester.makeini("[pytest]\nmarkers = slow: dear\n")
        pytester.makeconftest(CLOCK.replace("WIDE", str(wide)))
        pytester.makepyfile(tests)
        return pytester.runpytest_subprocess("-p", "budget", "-p", "xdist", *options)

    return run


def test_a_dear_test_is_refused_unless_it_is_marked(session) -> None:
    done = session(TESTS)
    done.assert_outcomes(passed=4, errors=1)
    done.stdout.fnmatch_lines(["*ERROR at teardown of test_dear*", "this test cost * units*"])
    done.stdout.re_match_lines([r" +\d+\.\d  .*::test_(dear|marked)"])


@pytest.mark.parametrize("processes", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_a_full_collection_of_garbage_is_charged_to_no_test(session, processes: list[str]) -> None:
    """Nor is what ends in it: here garbage that spends 1,000 s when it goes."""
    done = session(LEFT, *processes)
    done.assert_outcomes(passed=1)
    done.stdout.re_match_lines([r"tests 0 units, .* full collections [1-9]\d+, with imports \d{3,}"])


def test_what_is_dear_once_is_let_pass(session) -> None:
    """It runs again, with fixtures of its own, and is told once."""
    once = "runs = []\ndef test_once(spend, tmp_path):\n    runs.append(tmp_path)\n    spend(1000 * (len(runs) == 1))\n"
    done = session(f"{once}def test_after():\n    assert len(set(runs)) == 2\n")
    done.assert_outcomes(passed=2)


def test_a_wider_fixture_is_counted_for_itself(session) -> None:
    done = session(TESTS, "-k", "test_cheap or test_wide", wide=1000)
    done.assert_outcomes(passed=2, errors=1, deselected=2)
    done.stdout.fnmatch_lines([".::wide cost * units*", "*fixture .::wide"])
    done.stdout.no_fnmatch_line("*this test cost*")


def test_a_fixture_inside_another_is_not_counted_twice(session) -> None:
    done = session("def test_wider(wider):\n    pass\n", wide=1000)
    costs = [float(words[0]) for words in map(str.split, done.outlines) if words[1:2] == ["fixture"]]
    assert len(costs) == 2 and max(costs) < 1.5 * min(costs)


@pytest.mark.parametrize("processes", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_a_session_above_the_budget_fails(session, processes: list[str]) -> None:
    above = session(TESTS, "-k", "marked", "--budget", "1", *processes)
    assert above.ret == 1
    above.stdout.fnmatch_lines(["*of 1 minutes of CPU, ABOVE THE BUDGET*", "*1 passed*"])
    assert session(TESTS, "-k", "cheap", "--budget", "5", *processes).ret == 0
