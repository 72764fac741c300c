"""Calls on snapshot groups: Algorithm 1, the matching of a band, and exchanges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chronoscale.cuda_ext.reference import greedy as greedy_reference
from chronoscale.cuda_ext.reference import matching as matching_reference
from chronoscale.cuda_ext.scheduling.greedy import Ties, pair_groups
from chronoscale.cuda_ext.scheduling.matching import band_matching, exchange
from chronoscale.cuda_ext.scheduling.threshold_search import ThresholdSearch

Call = Callable[[str], tuple[Any, ...]]
NUMBERS = (np.nan, np.inf, -1.0, 0.0, 5e-324, 1e-310, 1e150, 1e300, 8e307, 1.7e308, -1e308, 1.0, 2.0)
COUNTS = (-1, 0, 1, 2, 3, 8, 2**16, 10**6, 2**31 - 1, 2**31, 2**32, 2**62, 2**63, 2**64 + 1, 1.5, None)


def _numbers(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Mostly sound ones; some hostile; sometimes of another type or shape."""
    made = generator.integers(0, 9, shape).astype(float) if generator.random() < 0.5 else generator.random(shape)
    if generator.random() < 0.4 and made.size:
        hostile = generator.random(shape) < (1.0 if generator.random() < 0.3 else 0.2)
        made[hostile] = generator.choice(generator.choice(NUMBERS, 2), int(hostile.sum()))
    choice = generator.integers(20)
    if choice == 0:
        return made[: len(made) // 2]
    if choice == 1:
        return made[None]
    if choice == 2:
        return np.nan_to_num(made).astype((np.int8, np.float16, np.bool_)[generator.integers(3)])
    return np.asfortranarray(made) if choice == 3 else made


def _count(generator: np.random.Generator, sound: int) -> Any:
    return COUNTS[generator.integers(len(COUNTS))] if generator.random() < 0.2 else sound


def greedy(generator: np.random.Generator) -> Call:
    n, width = int(generator.integers(0, 30)), int(generator.integers(0, 4))
    if generator.random() < 0.02:
        n = 300  # enough for helpers
    times, reuse = _numbers(generator, n), _numbers(generator, n, width)
    gpus, most, threads = (_count(generator, sound) for sound in (int(generator.integers(1, 9)), int(generator.integers(0, 6)), 2))
    ties: Ties = "first" if generator.random() < 0.5 else "reuse"

    def call(backend: str) -> tuple[Any, ...]:
        if backend == "cpu":
            plan = pair_groups(times, reuse, gpus, most, threads, ties)
            return plan.iteration, plan.gpu, plan.slot
        columns = [np.zeros(len(times), np.int32) for _ in range(3)]
        doubles = times.astype(float), reuse.astype(float)
        greedy_reference.schedule(doubles[0].tolist(), doubles[1].tolist(), gpus, most, ties == "reuse", *columns)
        return tuple(columns)

    return call


def band(generator: np.random.Generator) -> Call:
    weight = _numbers(generator, int(generator.integers(0, 12)), int(generator.choice([0, 1, 2, 3, 5, 12, 13, 64])))

    def call(backend: str) -> tuple[Any, ...]:
        if backend == "cpu":
            return band_matching(weight)
        mate = np.empty(len(weight), np.int32)
        return mate, matching_reference.band(weight.astype(float), mate)

    return call


def exchanged(generator: np.random.Generator) -> Call:
    n, width = int(generator.integers(0, 12)), int(generator.integers(0, 4))
    times, reuse, mate = _numbers(generator, n), _numbers(generator, n, width), np.full(n, -1, np.int32)
    if n > 1:
        mate[[0, 1]] = 1, 0
    if n and generator.random() < 0.1:
        mate[generator.integers(n)] = generator.choice([-2, -1, 0, n, 2**31 - 1])
    gpus, work, seed = _count(generator, int(generator.integers(1, 5))), int(generator.choice([-1, 0, 100, 2**62 + 1, 2**70])), -5
    if generator.random() < 0.8:
        work, seed = 200, int(generator.integers(2**62))
    pull, threshold, alpha = (float(generator.choice(NUMBERS)) if generator.random() < 0.05 else 0.5 for _ in range(3))
    search = ThresholdSearch(work, pull, threshold, seed)

    def call(backend: str) -> tuple[Any, ...]:
        if backend == "cpu":
            return exchange(times, reuse, gpus, mate, search, alpha)
        improved = mate.copy()
        if not len(times):
            return improved, 0.0
        return improved, matching_reference.exchange(times.astype(float), reuse.astype(float), gpus, alpha, search, improved)

    return call


KINDS = (greedy, band, exchanged)
