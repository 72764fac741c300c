"""Timing: medians of calls that take turns, so that drift of the machine hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

K = TypeVar("K")


def medians_in_turn(calls: Mapping[K, Callable[[], object]], repeats: int, warmup: int = 1) -> dict[K, float]:
    """Time calls in turn, so that drift of the machine hits all alike, and return each one's median seconds, for studies.

    calls: name -> function. repeats: timed calls of each, after `warmup` that do not count.
    """
    taken: dict[K, list[float]] = {name: [] for name in calls}
    for repeat in range(warmup + repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if repeat >= warmup:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}
