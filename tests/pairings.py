"""Scheduling problems of few groups, and all matchings of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chronoscale.strategies.real.benefit import Benefit

QUICK = 400_000  # exchange work that keeps tests short


def matchings(groups: list[int]) -> Iterator[list[tuple[int, int]]]:
    """All of them, pairs (a, b) and lone groups (a, -1)."""
    if not groups:
        yield []
        return
    first, rest = groups[0], groups[1:]
    for others in matchings(rest):
        yield [(first, -1), *others]
    for k, partner in enumerate(rest):
        for others in matchings(rest[:k] + rest[k + 1 :]):
            yield [(first, partner), *others]


def optimum(problem: Benefit, gpus: int, alpha: float = 0.0) -> float:
    """The least makespan of all schedules, by eq. 9-12 and nothing else of the project."""
    times, reuse, least = problem.times.tolist(), problem.reuse.tolist(), float("inf")
    for matching in matchings(list(range(len(times)))):
        loads = []
        for a, b in matching:
            shared = reuse[a][b - a - 1] if 0 <= b - a - 1 < len(reuse[a]) else 0.0
            loads.append(times[a] if b < 0 else times[a] + times[b] - shared)
        loads.sort(reverse=True)
        least = min(least, sum(loads[i] + alpha for i in range(0, len(loads), gpus)))
    return least


def generated(seed: int, n: int, width: int, kind: str) -> Benefit:
    rng = np.random.default_rng(seed)
    if kind == "ties":
        times, reuse = rng.integers(1, 6, n).astype(float), rng.integers(0, 4, (n, width)).astype(float)
    elif kind == "one long":
        times, reuse = rng.random(n) + 0.1, rng.random((n, width))
        times[rng.integers(n)] *= 30
    elif kind == "all shared":  # a pair takes hardly more than its longer group
        times, reuse = rng.random(n) + 1, np.full((n, width), np.inf)
    elif kind == "lopsided":
        times, reuse = rng.lognormal(0, 1.5, n), np.where(rng.random((n, width)) < 0.3, np.inf, 0.0)
    else:
        times, reuse = rng.lognormal(0, 0.4, n), rng.random((n, width))
    for k in range(width):
        here = max(n - k - 1, 0)
        reuse[:here, k] = np.minimum(reuse[:here, k], np.minimum(times[:here], times[n - here :]))
        reuse[here:, k] = 0
    return Benefit(times, reuse)


KINDS = ("ties", "one long", "all shared", "lopsided", "even")
