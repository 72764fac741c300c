"""Scores by their definitions, slowly."""

import numpy as np


def precision(positive, negative):
    """AP by its definition: over thresholds, from the highest, the precision times the recall gained."""
    scores, area, before = sorted({*positive, *negative}, reverse=True), 0.0, 0.0
    for threshold in scores:
        right, wrong = sum(x >= threshold for x in positive), sum(x >= threshold for x in negative)
        recall = right / len(positive)
        area, before = area + (recall - before) * right / (right + wrong), recall
    return area


def area(positive, negative):
    return np.mean([(one > other) + 0.5 * (one == other) for one in positive for other in negative])


def reciprocal(positive, rows):
    ranks = [1 + 0.5 * (sum(x > one for x in row) + sum(x >= one for x in row)) for one, row in zip(positive, rows, strict=True)]
    return np.mean([1 / rank for rank in ranks])
