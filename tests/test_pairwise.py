"""Covers of pairs, against all pairs counted one by one."""

from itertools import combinations, product

import pytest
from pairwise import cover, fast, pairwise

PRODUCT = list(product("abcd", range(3), (False, True), "xyz"))


@pytest.mark.parametrize("rows", [PRODUCT, [row for row in PRODUCT if row[0] != "a" or row[1]], [("a", 1)], []])
def test_every_pair_is_there(rows):
    taken = [rows[i] for i in cover(rows)]
    for i, j in combinations(range(4), 2):
        if rows and len(rows[0]) > j:
            assert {(row[i], row[j]) for row in rows} == {(row[i], row[j]) for row in taken}


def test_few_rows_are_taken():
    """At least the product of the two longest axes; no more than half as many again."""
    assert 12 <= len(cover(PRODUCT)) <= 18 < len(PRODUCT)


def test_required_rows_are_taken_and_count():
    taken = cover(PRODUCT, [7, 5])
    assert {5, 7} <= set(taken) and len(taken) <= 19
    assert cover(PRODUCT, range(len(PRODUCT))) == list(range(len(PRODUCT)))


def test_other_cases_are_slow():
    rows = pairwise(PRODUCT, required=lambda row: row == PRODUCT[-1])
    assert [param.values for param in rows] == PRODUCT
    unmarked = [i for i, param in enumerate(rows) if not param.marks]
    assert unmarked == cover(PRODUCT, [len(PRODUCT) - 1])
    assert all(mark.name == "slow" for param in rows for mark in param.marks)


def test_a_case_may_be_one_value():
    first, second = fast(["a", "b"], lambda number, case: case == "b")
    assert first.marks and not second.marks and (first.values, second.values) == (("a",), ("b",))
