"""How many examples hypothesis draws: 50 a test, the same ones every time; HYPOTHESIS_PROFILE=full: 400, others every time."""

from __future__ import annotations

import os

from hypothesis import settings

FAST = 50

settings.register_profile("fast", max_examples=FAST, deadline=None, derandomize=True)
settings.register_profile("full", max_examples=400, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def examples(fast: int) -> settings:
    """Return settings of a test of dear examples: so many in the fast profile, and as many times more in others as for every test."""
    return settings(max_examples=fast * settings.default.max_examples // FAST)
