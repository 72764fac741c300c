"""50 attempts at every target of tests/fuzz; `make test-all` makes 10,000 (`python tests/fuzz data --count 10000`)."""

from __future__ import annotations

import pytest
from fuzz.attempts import faults, targets

COUNT = 50


@pytest.mark.slow
@pytest.mark.parametrize("target", targets())
def test_attempts_hold(target: str) -> None:
    wrong = [fault for fault in faults(target, 0, range(COUNT)) if fault is not None]
    assert not wrong, f"{len(wrong)} of {COUNT}, the first: attempt {wrong[0].number}: {wrong[0].problem}"
