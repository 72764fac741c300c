"""Modelled caches against one that is written down as a list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_case import PLACES

from chronoscale.cuda_ext.sampling import processor_caches as made
from chronoscale.cuda_ext.sampling.processor_caches import hits
from chronoscale.errors import UserError


@pytest.fixture(params=PLACES, autouse=True)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "reference":
        monkeypatch.setattr(made, "cpu_library_or_warn", lambda _: None)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), max_size=80), st.integers(1, 4), st.integers(1, 4))
def test_what_was_used_least_recently_is_replaced(accesses: list[tuple[int, int]], sets: int, ways: int) -> None:
    held: dict[tuple[int, int], list[int]] = {}
    expected = []
    for line, cache in accesses:
        here = held.setdefault((cache, line % sets), [])
        expected.append(line in here)
        held[cache, line % sets] = [line, *(one for one in here if one != line)][:ways]
    lines, of = (np.array([access[k] for access in accesses], dtype) for k, dtype in enumerate((np.int64, np.int32)))
    found = hits(lines, of, 3, sets, ways)
    assert found.dtype == np.bool_ and found.tolist() == expected


def test_what_is_refused() -> None:
    line, cache = np.zeros(3, np.int64), np.zeros(3, np.int32)
    for wrong in ((line, cache, 0, 1, 1), (line, cache, 1, 1, 2**31), (line.astype(np.int32), cache, 1, 1, 1), (line, cache[:2], 1, 1, 1)):
        with pytest.raises(
            UserError, match=r"^caches: line int\d\d \[3\], cache int32 \[\d\], .* at least one of each and fewer than 2\^31"
        ):
            hits(*wrong)
    for wrong in ((line - 1, cache, 1, 1, 1), (line, cache + 1, 1, 1, 1), (line, cache - 1, 1, 1, 1)):
        with pytest.raises(UserError, match=r"^caches: lines from -?\d on, caches -?\d to -?\d; expected from 0 on, 0 to 0$"):
            hits(*wrong)
