"""Ranks, MRR and hits against a loop, AP and AUC against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.metrics import average_precision_score, roc_auc_score

from chronoscale.datasets.streams import ranking
from chronoscale.errors import UserError

scores = st.integers(-2, 2)  # few values, many ties
tables = st.tuples(st.integers(1, 8), st.integers(1, 6)).flatmap(
    lambda shape: st.tuples(
        st.lists(scores, min_size=shape[0], max_size=shape[0]),
        st.lists(st.lists(scores, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]),
    )
)


@given(tables)
def test_a_rank_is_halfway_between_the_best_and_the_worst_of_its_ties(table):
    positive, negative = (np.array(part, np.float32) for part in table)
    ranks = ranking.ranks(positive, negative)
    expected = []
    for own, others in zip(*table, strict=True):
        ordered = sorted([own, *others], reverse=True)
        first, last = ordered.index(own) + 1, len(ordered) - ordered[::-1].index(own)
        expected.append((first + last) / 2)
    assert ranks.tolist() == expected
    assert ranking.mean_reciprocal_rank(ranks) == pytest.approx(sum(1 / rank for rank in expected) / len(expected))
    for at in (1, 3):
        assert ranking.hits_at(ranks, at) == pytest.approx(sum(rank <= at for rank in expected) / len(expected))


@given(tables)
def test_ap_and_auc_are_those_of_the_definitions(table):
    positive, negative = (np.array(part, np.float64) for part in table)
    flat = negative.ravel()
    area = np.mean([(own > flat).mean() + 0.5 * (own == flat).mean() for own in positive])
    assert ranking.roc_area(positive, negative) == pytest.approx(area)
    precision, recall = 0.0, 0.0
    for threshold in sorted(set(positive.tolist()), reverse=True):
        hit, negative_hits = (positive >= threshold).sum(), (positive >= threshold).sum() + (flat >= threshold).sum()
        precision += (hit / positive.size - recall) * hit / negative_hits
        recall = hit / positive.size
    assert ranking.average_precision(positive, negative) == pytest.approx(precision)
    labels, values = np.repeat([1, 0], [positive.size, flat.size]), np.concatenate([positive, flat])
    assert ranking.average_precision(positive, negative) == pytest.approx(average_precision_score(labels, values), rel=1e-12)
    assert ranking.roc_area(positive, negative) == pytest.approx(roc_auc_score(labels, values), rel=1e-12)


def test_one_score_for_all_ranks_as_a_guess_and_a_perfect_one_first():
    one = np.zeros(5, np.float32)
    assert_array_equal(ranking.ranks(one, np.zeros((5, 9), np.float32)), 5.5)
    assert ranking.roc_area(one, np.zeros((5, 9), np.float32)) == 0.5
    best = ranking.ranks(one + 1, np.zeros((5, 9), np.float32))
    assert (ranking.mean_reciprocal_rank(best), ranking.hits_at(best, 1)) == (1.0, 1.0)


def test_negatives_that_there_are_not_count_nowhere():
    positive, negative = np.array([1.0, 0.0]), np.array([[0.0, 2.0, -np.inf], [1.0, -np.inf, -np.inf]])
    assert_array_equal(ranking.ranks(positive, negative), [2.0, 2.0])
    positive_scores = np.array([0.0, 2.0, 1.0])
    assert ranking.roc_area(positive, negative) == pytest.approx(
        roc_auc_score([1, 1, 0, 0, 0], np.concatenate([positive, positive_scores])), rel=1e-12
    )
    with pytest.raises(UserError, match="there is none"):
        ranking.average_precision(positive, np.full((2, 2), -np.inf))
    negative[1] = -np.inf
    with pytest.raises(UserError, match="1 of 2 rows have none to rank among"):
        ranking.ranks(positive, negative)
    with pytest.raises(UserError, match="2 of 2 rows have none"):
        ranking.ranks(positive, np.zeros((2, 0)))


@pytest.mark.parametrize("of", [ranking.ranks, ranking.average_precision, ranking.roc_area])
def test_scores_that_are_no_numbers_or_do_not_fit_are_refused(of):
    good, row = np.zeros(3), np.zeros((3, 2))
    for bad in (np.nan, np.inf):
        spoilt = row.copy()
        spoilt[1, 1] = bad
        with pytest.raises(UserError, match="negative scores: 1 of 6 are not finite"):
            of(good, spoilt)
    with pytest.raises(UserError, match="positive scores: 1 of 3 are not finite"):
        of(np.array([0.0, np.nan, 1.0]), row)
    for positive, negative in ((np.zeros(2), row), (row, row), (np.zeros(0), np.zeros((0, 2)))):
        with pytest.raises(UserError, match="at least one event"):
            of(positive, negative)
    with pytest.raises(UserError, match="one row an event"):
        ranking.ranks(good, good)


def test_events_are_ranked_also_where_nothing_is_compared():
    """Of two events the first has no negative of its own for AP, and both have some to rank among."""
    positive, negative = np.array([2.0, 1.0]), np.array([[-np.inf, 3.0, 1.0], [0.0, 0.0, -np.inf]])
    scores = ranking.link_scores(positive, negative, np.array([True, False]))
    assert scores == {"ap": 1.0, "auc": 1.0, "mrr": 0.75, "mrr_new": 0.5}
