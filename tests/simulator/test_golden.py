"""Golden makespans: an epoch of every strategy takes what it took, to the nanosecond, by both engines.

They say that something moved, not that it is wrong: where it is meant to, `python tests/golden_spans.py` writes them anew.
"""

from __future__ import annotations

import json

import pytest
from golden_spans import CASES, FILE, spans_ns

GOLDEN = json.loads(FILE.read_text())
RENEW = "if it is meant to have moved: python tests/golden_spans.py"


def test_every_strategy_has_one():
    assert list(GOLDEN) == CASES, RENEW


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", CASES)
def test_spans(case):
    assert (spans_ns(case), spans_ns(case, "simpy")) == (GOLDEN[case], GOLDEN[case]), RENEW
