"""Ranking metrics: how well scores tell events that happened (positive) from those that did not (negative).

A negative of score -inf is one that there is not: rows with fewer negatives than others are filled with it.
"""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.arrays import Bool, Float64, Int64, Numbers
from chronoscale.errors import UserError


def ranks(positive: Numbers, negative: Numbers) -> Float64:
    """Return the rank, 1 the best, of the score of each event that happened (positive [E]) among its own negatives' scores [E, k]: float64
    [E].

    Of equal scores the rank is halfway between the best and the worst possible, as TGB's evaluator has it (Huang et al. 2023, §4): a model
    that gives every pair one score has the rank of a guess. A negative of -inf is absent. Raises UserError for NaN, arrays that do not fit,
    or rows without a negative, where any score would be the best.
    """
    _check(positive, negative)
    if negative.ndim != 2:
        raise UserError(f"negative scores: expected one row an event, got shape {negative.shape}")
    if alone := np.count_nonzero((negative == -np.inf).all(axis=1)):
        raise UserError(f"negative scores: {alone} of {len(negative)} rows have none to rank among; leave these events out")
    higher = np.count_nonzero(negative > positive[:, None], axis=1)
    no_lower = np.count_nonzero(negative >= positive[:, None], axis=1)
    ranks_of_positives: Float64 = 0.5 * (higher + no_lower) + 1.0
    return ranks_of_positives


def mean_reciprocal_rank(ranks: Float64) -> float:
    """Return the mean of 1 / rank (MRR) of predicted events, from `ranks`."""
    return float((1.0 / ranks).mean())


def hits_at(ranks: Float64, at: int) -> float:
    """Return hits@`at` of predicted events, from `ranks`: the share whose rank is no worse than `at`."""
    return float((ranks <= at).mean())


def average_precision(positive: Numbers, negative: Numbers) -> float:
    """Return the average precision (AP) of predicted links: scores of events that happened, positive [E], among those of all negatives, [E]
    or [E, k], at once; TGN's code takes the mean over batches. A negative of -inf is absent. Raises as `ranks`."""
    true, false = _curve(*_labels_and_scores(positive, negative))
    return float(np.sum(np.diff(true, prepend=0) / true[-1] * (true / (true + false))))


def roc_area(positive: Numbers, negative: Numbers) -> float:
    """Return the area under the ROC curve (AUC) of predicted links: scores of events that happened, positive [E], among those of all
    negatives, [E] or [E, k]. A negative of -inf is absent. Raises as `ranks`."""
    return _area_under_curve(*_labels_and_scores(positive, negative))


def link_scores(positive: Numbers, negative: Numbers, new: Bool) -> dict[str, float]:
    """Compute AP, AUC and MRR of predicted links by key: each event's score, positive [E], is compared with its first negative's,
    negative[:, 0], where it has one (ap, auc), and ranked among the others', negative[:, 1:], where it has any (mrr). Keys that end in
    _new: of the events `new` bool [E] (those with a node that training has not seen), if there are any. Raises as `ranks`."""
    scores: dict[str, float] = {}
    for ending, subset in (("", np.ones_like(new)), ("_new", new)):
        compared = subset & np.isfinite(negative[:, 0])
        ranked = subset & np.isfinite(negative[:, 1:]).any(axis=1)
        if compared.any():
            first = negative[compared, 0]
            scores |= {f"ap{ending}": average_precision(positive[compared], first), f"auc{ending}": roc_area(positive[compared], first)}
        if ranked.any():
            scores[f"mrr{ending}"] = mean_reciprocal_rank(ranks(positive[ranked], negative[ranked, 1:]))
    return scores


def label_roc_area(scores: Numbers, labels: Numbers) -> float:
    """Return the area under the ROC curve (AUC) of a node classifier's scores [E], by which events of label 1 should come before those of
    0; both occur in labels [E]. Raises UserError for other arrays."""
    if scores.ndim != 1 or scores.shape != labels.shape or not np.isin([0, 1], labels).all():
        raise UserError(f"labels: expected 0 and 1, each at least once, one a score, got {np.unique(labels)[:5].tolist()} {labels.shape}")
    return _area_under_curve(labels, scores)


def _curve(labels: Numbers, scores: Numbers) -> tuple[Int64, Int64]:
    """Count the labels 1 and 0 that score no less than each of the different scores, from the highest to the lowest."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    true = np.cumsum(labels[order] == 1, dtype=np.int64)[last]
    return true, 1 + last - true


def _area_under_curve(labels: Numbers, scores: Numbers) -> float:
    """Return the area under the curve through (0, 0) and those points, as a share of the whole (Fawcett 2006, algorithm 2)."""
    true, false = _curve(labels, scores)
    trapezoids = np.diff(false, prepend=0) * (true + np.concatenate([[0], true[:-1]]))  # twice their areas, whole numbers
    return float(trapezoids.sum() / (2.0 * true[-1] * false[-1]))


def _labels_and_scores(positive: Numbers, negative: Numbers) -> tuple[Numbers, Numbers]:
    """Return labels (1 or 0) and scores of all positives and of the negatives that are there. Raises as `ranks`."""
    _check(positive, negative)
    there = negative[negative != -np.inf]
    if not there.size:
        raise UserError("negative scores: there is none, one at least is needed")
    labels = np.repeat([1, 0], [positive.size, there.size])
    return labels, np.concatenate([positive, there])


def _check(positive: Numbers, negative: Numbers) -> None:
    if positive.ndim != 1 or positive.size == 0 or negative.shape[:1] != positive.shape:
        raise UserError(f"scores: expected positive [E] and negative [E, k] of at least one event, got {positive.shape}, {negative.shape}")
    if wrong := np.count_nonzero(~np.isfinite(positive)):
        raise UserError(f"positive scores: {wrong} of {positive.size} are not finite")
    if wrong := np.count_nonzero(np.isnan(negative) | (negative == np.inf)):
        raise UserError(f"negative scores: {wrong} of {negative.size} are not finite")
