"""Timing: medians of calls that take turns, so that drift of the machine hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

K = TypeVar("K")


def medians_in_turn(calls: Mapping[K, Callable[[], object]], repeats: int, warmup: int = 1) -> dict[K, float]:
    """Time functions in this process for a study, one call of each in turn, and return each one's median seconds.

    In turn, so that a machine that becomes slower slows all alike. calls: name -> function. repeats: timed calls of each, after `warmup`
    calls that are left out.
    """
    taken: dict[K, list[float]] = {name: [] for name in calls}
    for repeat in range(warmup + repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if repeat >= warmup:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}
