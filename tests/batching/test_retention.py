"""Retention: how many chunks each age keeps, against roots of 80 digits and against counting."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.errors import UserError

written = st.builds(lambda digits, places: float(f"{digits}e-{places}"), st.integers(1, 1000), st.just(3))
alphas = st.one_of(written, st.floats(1e-6, 1), st.sampled_from([2.0**-6, 0.25, 0.5**4, 0.7**3]))


def floors(decay: Decay, chunks: int) -> list[int]:
    """floor(beta N), snapshot after snapshot; what is closer to a whole number than 60 digits tell is that number."""
    counts = [chunks] * decay.full
    with localcontext(prec=80):
        for _ in range(decay.decayed):
            share = (Decimal(repr(decay.alpha)).ln() / decay.decayed).exp() * counts[-1]
            counts.append(int((share + Decimal("1e-60")).to_integral_value(ROUND_FLOOR)))
    return counts


@given(st.integers(1, 4), st.integers(0, 9), alphas, st.integers(1, 5000))
@example(2, 1, 0.1, 10)  # 0.1 of 10 is 1, whatever a float makes of it
@example(1, 2, 0.49, 100)
@example(1, 3, 0.343, 1000)
@example(2, 6, 1.0, 7)
def test_sizes_follow_the_formula(full: int, decayed: int, alpha: float, chunks: int) -> None:
    decay = Decay(full, decayed, alpha)
    found = decay.kept_chunks(chunks)
    assert found.dtype == np.int64 and decay.window == full + decayed == len(found)
    assert found.tolist() == floors(decay, chunks)
    assert all(older <= newer for newer, older in pairwise(found.tolist()))


@given(st.integers(1, 3), st.integers(0, 6), alphas, st.integers(1, 200), st.data())
def test_lags_are_kept_whole_and_break_the_chain(full: int, decayed: int, alpha: float, chunks: int, data: st.DataObject) -> None:
    lags = tuple(data.draw(st.lists(st.integers(0, full + decayed - 1), max_size=3)))
    plain, decay = Decay(full, decayed, alpha), Decay(full, decayed, alpha, lags)
    found = decay.kept_chunks(chunks).tolist()
    assert found == [chunks if age in lags else kept for age, kept in enumerate(plain.kept_chunks(chunks).tolist())]
    assert decay.broken == tuple(age for age, kept in enumerate(found) if any(older > kept for older in found[age:]))
    assert plain.broken == ()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((0, 6, 0.1), "training.full must be at least 1 and training.decayed at least 0, got 0 and 6"),
        ((2, -1, 0.1), "training.full must be at least 1 and training.decayed at least 0, got 2 and -1"),
        ((2, 6, 0.0), "training.alpha must be above 0 and at most 1: the share that is kept of the oldest snapshot, got 0"),
        ((2, 6, 1.25), "training.alpha must be above 0 and at most 1: the share that is kept of the oldest snapshot, got 1.25"),
        ((2, 6, float("nan")), "training.alpha must be above 0 and at most 1: the share that is kept of the oldest snapshot, got nan"),
        ((2, 6, 0.1, (3, 8)), "training.lags must lie in the window, 0..7 snapshots back, got [3, 8]"),
        ((2, 6, 0.1, (-1,)), "training.lags must lie in the window, 0..7 snapshots back, got [-1]"),
    ],
)
def test_what_is_wrong_is_said(asked: tuple, said: str) -> None:
    with pytest.raises(UserError) as error:
        Decay(*asked)
    assert str(error.value) == said
