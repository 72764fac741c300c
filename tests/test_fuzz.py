"""200 attempts at every target of tests/fuzz; by hand more: `python tests/fuzz data --count 10000`."""

from __future__ import annotations

import pytest
from fuzz.attempts import faults, targets


@pytest.mark.parametrize("target", targets())
def test_200_attempts_hold(target: str) -> None:
    wrong = [fault for fault in faults(target, 0, range(200)) if fault is not None]
    assert not wrong, f"{len(wrong)} of 200, the first: attempt {wrong[0].number}: {wrong[0].said}"
