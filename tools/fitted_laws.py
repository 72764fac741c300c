"""Fitted laws: of few terms, with coefficients that are not negative, for what was counted of rows (`count_moved.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import nnls

from chronoscale.strategies.costs import Floats

SLACK, LEAST = 0.25, 0.0005  # a law's typical error may be larger than that of all terms by a quarter, and by so much
Sample = tuple[int, dict[tuple[str, str], int]]  # bytes counted, and what each term of each law comes to


def fitted(found: Sequence[Sample]) -> dict[tuple[str, str], float]:
    """A law of few terms: non-negative least squares of relative errors (Lawson and Hanson), and one term after the other given up, the
    one that costs least first, while the typical error (root of the mean square) grows by SLACK and LEAST at most."""
    keys = sorted({key for _, worth in found for key in worth})
    counts = np.array([max(count, 1) for count, _ in found], np.float64)
    features = np.array([[worth.get(key, 0) for key in keys] for _, worth in found], np.float64) / counts[:, None]
    scale = np.maximum(features.max(0, initial=0), 1e-30)
    small = np.linalg.qr(np.column_stack([features / scale, np.ones(len(found))]), mode="r") / len(found) ** 0.5  # as good, and short

    def solved(chosen: Sequence[int]) -> tuple[float, dict[int, float]]:
        factors, error = nnls(small[:, chosen], small[:, -1], maxiter=50 * len(keys)) if chosen else (np.zeros(0), 1.0)
        return float(error), {at: factor for at, factor in zip(chosen, factors.tolist(), strict=True) if factor}

    error, law = solved(range(len(keys)))
    best, most = law, (1 + SLACK) * error + LEAST
    while law and error <= most:
        best = law
        error, law = min((solved([at for at in best if at != gone]) for gone in best), key=lambda trial: trial[0])
    return {keys[at]: float(f"{factor / scale[at]:.4g}") for at, factor in best.items()}


def errors(law: Mapping[tuple[str, str], float], found: Sequence[Sample]) -> Floats:
    """Of a law, relative, of every sample."""
    return np.array([sum(law.get(key, 0) * size for key, size in worth.items()) / max(count, 1) - 1 for count, worth in found])
