"""Gaussian kernel: weights of edges from distances, as DCRNN's graphs have them."""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.arrays import Float64

THRESHOLD = 0.1  # of DCRNN's scripts/gen_adj_mx.py (normalized_k)


def gaussian_kernel(distance: Float64, sigma: float) -> Float64:
    """Compute the weight exp(-(distance / sigma)^2) of each edge (Li et al., ICLR 2018, §4.1), in (0, 1]; infinity gives 0."""
    return np.exp(-np.square(distance / sigma))
