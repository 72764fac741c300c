"""Counter-based random numbers: each depends on a key and a number alone, so that any part can be drawn by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Float64, Int64

_STEP = 0x9E3779B97F4A7C15  # SplitMix64 (Steele et al., 2014)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ROUNDS = 3


def uniform(at: Int64, key: int) -> Float64:
    """Draw one random number in [0, 1) for each of the counters `at`, int64 [n]: float64 [n]. A number depends on its counter and `key` (0
    .. 2^64 - 1) alone (SplitMix64), so that any part of a generated dataset, or of a batch's draws, can be drawn by itself."""
    bits = _mix(at.astype(np.uint64) * np.uint64(_STEP) + np.uint64(key)) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def permute(at: Int64, size: int, key: int, back: bool = False) -> Int64:
    """Permute the numbers 0 .. size - 1 at random, without a table: return where each of `at`, int64 [n], goes, int64 [n]; `back`: by the
    inverse permutation. It depends on size and `key` alone; generated event streams number their nodes by it.

    Multiplications by odd numbers and xor-shifts permute the next power of two; what falls outside goes round again (cycle walking, Black
    and Rogaway, 2002), less than twice on average.
    """
    bits = max((size - 1).bit_length(), 2)
    factors, terms = _mix(np.arange(1, 2 * _ROUNDS + 1, dtype=np.uint64) * np.uint64(_STEP) + np.uint64(key)).reshape(2, _ROUNDS)
    factors |= np.uint64(1)
    mask, shift = np.uint64((1 << bits) - 1), np.uint64((bits + 1) // 2)  # half of the bits or more: doing it twice undoes it
    if back:
        factors = np.array([pow(int(factor), -1, 1 << bits) for factor in factors[::-1]], np.uint64)

    def once(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        for factor, term in zip(factors, terms[::-1] if back else terms, strict=True):
            x = (((x ^ (x >> shift)) - term) * factor if back else x * factor + term) & mask
            x = x if back else x ^ (x >> shift)
        return x

    placed = once(at.astype(np.uint64))
    outside = np.flatnonzero(placed >= size)
    while outside.size:
        placed[outside] = once(placed[outside])
        outside = outside[placed[outside] >= size]
    return placed.astype(np.int64)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))
