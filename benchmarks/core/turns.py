"""Turns: contestants are measured one after another, pass by pass, so that a slow spell of the machine falls on all of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

import torch

Result = TypeVar("Result")
Call = Callable[[], object]
Clock = Callable[[], float]
SAMPLE_S = 0.01  # a sample is a loop of calls of about this length
PAUSE_S = 0.01  # threads of OpenMP spin for milliseconds after the contestant before
MOST_CALLS = 200  # of a sample on a GPU, whose queue takes about a thousand kernels before the host has to wait
SLOW_S, FEW = 0.2, 2  # on a GPU a call that takes longer is sampled FEW times
HEAD_START = 40_000_000  # clock cycles of the GPU, some 20 ms


class Sampler(NamedTuple):
    """A warm contestant: `sample` returns seconds a call, `call_s` is about what they will be."""

    sample: Callable[[], float]
    call_s: float


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


def time_calls(calls: Mapping[str, Call], repeats: int, threads: int, device: str = "cpu") -> dict[str, list[float]]:
    """Return seconds a call of every contestant, a sample a pass.

    On a CPU with one thread they are its processor time, so that other work on the machine counts less; with more, wall time. On a GPU they
    are the time between two events.
    """
    clock = time.thread_time if threads == 1 else time.perf_counter
    warm = _on_device if device == "cuda" else partial(_on_cpu, clock=clock)
    samplers = {who: one for who, call in calls.items() if (one := memory_permitting(who, partial(warm, call))) is not None}
    passes = {who: min(FEW, repeats) if device == "cuda" and one.call_s > SLOW_S else repeats for who, one in samplers.items()}
    return in_turns({who: one.sample for who, one in samplers.items()}, passes)


def memory_permitting(who: str, call: Callable[[], Result]) -> Result | None:
    """Return what a contestant's call returns; None, and a line on stderr, where the device's memory does not hold it."""
    try:
        return call()
    except torch.OutOfMemoryError:
        print(f"{who} is left out: it needs more memory than the device has", file=sys.stderr)
        torch.cuda.empty_cache()
        return None


def _on_cpu(call: Call, clock: Clock) -> Sampler:
    """Warm a call up on the CPU."""
    call()
    call_s = seconds_of(call)
    loops = max(1, int(SAMPLE_S / max(call_s, 1e-9)))

    def sample() -> float:
        time.sleep(PAUSE_S)
        call()
        start = clock()
        for _ in range(loops):
            call()
        return (clock() - start) / loops

    return Sampler(sample, call_s)


def _on_device(call: Call) -> Sampler:
    """Warm a call up on the GPU.

    The host puts a sample's calls into the queue while the device is busy with a kernel that only waits, so that they run one right after
    the other: what launching them costs the host is not in the figure, unless a call itself waits for the device.
    """

    def synchronised() -> None:
        call()
        torch.cuda.synchronize()

    synchronised()
    call_s = seconds_of(synchronised)
    loops = min(MOST_CALLS, max(1, int(SAMPLE_S / max(call_s, 1e-9))))

    def sample() -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(HEAD_START)
        begin.record()
        for _ in range(loops):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / loops

    return Sampler(sample, call_s)


def seconds_of(call: Call) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
