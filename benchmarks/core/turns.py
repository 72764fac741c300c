"""Turns: contestants are measured one after another, pass by pass, so that a slow spell of the machine falls on all of them.

Imports neither torch nor pytest-benchmark: `make gpu` uses it on a machine that need not have the latter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Result = TypeVar("Result")
Call = Callable[[], object]
Clock = Callable[[], float]
SAMPLE_S = 0.01  # a sample is a loop of calls of about this length
PAUSE_S = 0.01  # threads of OpenMP spin for milliseconds after the contestant before


def in_turns(contestants: Mapping[str, Callable[[], Result]], repeats: int | Mapping[str, int]) -> dict[str, list[Result]]:
    """Call every contestant once a pass and return what its calls returned.

    Args:
        repeats: Passes, of all contestants or of each. One with fewer than others leaves out the last passes.
    """
    passes = {who: repeats if isinstance(repeats, int) else repeats[who] for who in contestants}
    results: dict[str, list[Result]] = {who: [] for who in contestants}
    for number in range(max(passes.values(), default=0)):
        for who, contestant in contestants.items():
            if number < passes[who]:
                results[who].append(contestant())
    return results


def time_calls(calls: Mapping[str, Call], repeats: int, threads: int) -> dict[str, list[float]]:
    """Return seconds a call of every contestant, a sample a pass.

    With one thread they are its processor time, so that other work on the machine counts less; with more, wall time.
    """
    clock = time.thread_time if threads == 1 else time.perf_counter
    return in_turns({who: _sampler(call, clock) for who, call in calls.items()}, repeats)


def _sampler(call: Call, clock: Clock) -> Callable[[], float]:
    """Warm a call up, and return a function that takes a sample of it."""
    call()
    start = time.perf_counter()
    call()
    loops = max(1, int(SAMPLE_S / max(time.perf_counter() - start, 1e-9)))

    def sample() -> float:
        time.sleep(PAUSE_S)
        call()
        start = clock()
        for _ in range(loops):
            call()
        return (clock() - start) / loops

    return sample


def seconds_of(call: Call) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
