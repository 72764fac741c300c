"""Pairs of values in few cases: most faults need two settings to meet, and few need three; the other cases are left to the slow tier."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations
from typing import Any

import pytest

Row = Sequence[Hashable]


def pairs(row: Row) -> set[tuple[int, int, Hashable, Hashable]]:
    """Return all pairs of values of a row, with their places."""
    return {(i, j, row[i], row[j]) for i, j in combinations(range(len(row)), 2)}


def cover(rows: Sequence[Row], required: Iterable[int] = ()) -> list[int]:
    """Return the indices, in order, of few rows in which every pair of values that occurs in any row occurs.

    Greedy: the row with most pairs that are not covered yet comes next, the first of several. `required`: rows that are taken anyway.
    """
    each = [pairs(row) for row in rows]
    taken = set(required)
    missing = set().union(*each) - set().union(*(each[i] for i in taken)) if each else set()
    while missing:
        best = max(range(len(rows)), key=lambda i: len(each[i] & missing))
        taken.add(best)
        missing -= each[best]
    return sorted(taken)


def fast(cases: Sequence[Any], is_kept: Callable[[int, Any], bool]) -> list[Any]:
    """Return parameters of pytest of which those that are not `kept` (given a case's index, and it) are marked slow."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if is_kept(number, case) else pytest.mark.slow)
        for number, case in enumerate(cases)
    ]


def pairwise(cases: Iterable[Row], *, required: Callable[[Row], bool] = lambda _: False) -> list[Any]:
    """Return the cases as parameters of pytest; those outside a pairwise cover are marked slow. `required`: cases that stay fast anyway,
    as the only ones that notice some fault."""
    rows = list(cases)
    taken = set(cover(rows, [i for i, row in enumerate(rows) if required(row)]))
    return fast(rows, lambda number, _: number in taken)
