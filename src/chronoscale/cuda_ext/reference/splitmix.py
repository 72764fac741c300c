"""SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) in plain Python, for the references of kernels that draw random numbers."""

from __future__ import annotations

WORD = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    """Mix the bits of a number below 2^64 by SplitMix64's finaliser, as the native samplers draw random numbers.

    A bijection whose output bits all depend on all input bits.
    """
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & WORD
    return x ^ (x >> 31)
