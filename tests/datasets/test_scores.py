"""Scores: which value is the better one, what is told of it, and keys that are none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.datasets.scores import NEW_NODES, SCORES, require_score, scores_present

VALUES = st.lists(st.floats(), max_size=6)


@given(VALUES, st.sampled_from(sorted(SCORES)))
def test_nothing_beats_the_best(values, key):
    score = SCORES[key]
    best = score.best(values)
    assert math.isnan(best) == all(map(math.isnan, values))
    assert not any(score.beats(value, best) for value in values)
    assert all(score.beats(best, value) for value in values if not math.isnan(value) and value != best)


def test_errors_are_better_low_and_the_others_high():
    assert {key for key, score in SCORES.items() if score.better == "lower"} == {"mae", "rmse", "mape", "mse"}
    assert SCORES["mae"].best([3.0, 2.0, math.nan]) == 2.0 and SCORES["mrr"].best([0.5, 0.75, math.nan]) == 0.75
    assert SCORES["ap"].beats(0.9, 0.8) and not SCORES["ap"].beats(0.8, 0.8) and not SCORES["mae"].beats(2.0, 2.0)


def test_every_score_is_found_by_its_key_and_says_what_it_is():
    assert all(score.key == key for key, score in SCORES.items())
    assert len({score.title for score in SCORES.values()}) == len({score.meaning for score in SCORES.values()}) == len(SCORES)
    new = [key for key, score in SCORES.items() if NEW_NODES in score.meaning]
    assert new == ["ap_new", "auc_new", "mrr_new"]
    assert [key for key, score in SCORES.items() if score.may_be_undefined] == ["mape", *new]  # of readings of zero, of no such event


def test_what_is_told():
    assert [SCORES["mae"].describe(3.14159), SCORES["mape"].describe(0.12345)] == ["MAE 3.142", "MAPE 12.35%"]
    assert [SCORES["mrr_new"].describe(0.98765), SCORES["ap_new"].describe(math.nan)] == [
        "MRR (new nodes) 0.9877",
        "AP (new nodes) undefined",
    ]


def test_those_present_stand_in_the_order_of_the_table_and_others_are_refused():
    assert [score.key for score in scores_present([{"mrr": 0.5, "ap": math.nan}, {}, {"mae": 1.0}])] == ["mae", "ap", "mrr"]
    assert scores_present([]) == scores_present([{}]) == []
    for read in (lambda: require_score("precision"), lambda: scores_present([{"ap": 0.5}, {"precision": 0.5}])):
        with pytest.raises(ValueError, match=r"'precision' is no score; there are mae, .*mrr_new"):
            read()
