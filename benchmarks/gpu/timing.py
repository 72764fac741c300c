"""Timing: seconds a call, in batches that the host does not slow down, interleaved over all that are compared."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from core.turns import Call, in_turns

BATCH_S = 0.01  # a batch takes at least this long, or MOST rounds
MOST = 2_000
SLOW_S = 0.2  # a contestant whose call takes longer is timed FEW times, and need not be captured: what the host adds is nothing
FEW = 2
GRAPH, STREAM, HOST = "graph", "stream", "host"


@dataclass(frozen=True, slots=True)
class Batch:
    """`start` sets `calls` calls going. `how`: as one CUDA graph, enqueued one by one, or run on the CPU."""

    start: Call
    calls: int
    how: str

    def seconds(self) -> float:
        """Of a call."""
        if self.how == HOST:
            begun = time.perf_counter()
            self.start()
            return (time.perf_counter() - begun) / self.calls
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.start()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / self.calls


def batch(calls: Sequence[Call], device: str, capture: bool) -> tuple[Batch, bool]:
    """Warm, and as many rounds over `calls` as fill BATCH_S; and whether it is slow. Calls on operands of their own keep each other's out
    of the L2 cache. Raises what the calls raise, also while they are captured: nothing is then timed in another way instead."""
    for call in calls:
        call()

    def enqueued(rounds: int) -> Batch:
        return Batch(lambda: _rounds(calls, rounds), rounds * len(calls), STREAM if device == "cuda" else HOST)

    def captured(rounds: int) -> Batch:
        return Batch(_captured(calls, rounds), rounds * len(calls), GRAPH)

    once = enqueued(1).seconds()
    slow = once > SLOW_S
    make = captured if device == "cuda" and capture and not slow else enqueued
    rounds = _filling(once * len(calls))
    made = make(rounds)
    if make is captured and (wanted := _filling(made.seconds() * len(calls))) > rounds:  # without the host in between it takes less time
        del made  # its memory
        made = captured(wanted)
    return made, slow


def _filling(round_s: float) -> int:
    return min(MOST, max(1, math.ceil(BATCH_S / max(round_s, 1e-9))))


def _rounds(calls: Sequence[Call], rounds: int) -> None:
    for _ in range(rounds):
        for call in calls:
            call()


@cache
def _side() -> torch.cuda.Stream:
    """The stream that is captured, one for all: what warms up on it leaves memory and libraries' handles that the capture finds again."""
    return torch.cuda.Stream()


def _captured(calls: Sequence[Call], rounds: int) -> Call:
    """A CUDA graph's replay. Raises RuntimeError where something in the calls waits for the device."""
    before, side = torch.cuda.current_stream(), _side()
    side.wait_stream(before)
    with torch.cuda.stream(side):
        _rounds(calls, 1)
    before.wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=side):
            _rounds(calls, rounds)
    finally:
        torch.cuda.set_stream(before)  # a capture that fails leaves its own
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay


def measure(contestants: Mapping[str, Sequence[Call]], device: str, repeats: int, captured: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Of each contestant `ms`, the median of interleaved repeats, `spread`, half the interquartile range over it, `how`, the `calls` of a
    batch and the `repeats`, FEW for a slow one; or `left_out`, why it could not be had: it does not stop the others."""
    seconds_by_name: dict[str, Any] = {}
    batches: dict[str, Batch] = {}
    several: dict[str, int] = {}
    for who, calls in contestants.items():
        try:
            batches[who], slow = batch(calls, device, who in captured)
            several[who] = min(repeats, FEW) if slow else repeats
        except Exception as error:  # a rival's memory, a type that it does not take: the table says so
            seconds_by_name[who] = {"left_out": f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"}
            if device == "cuda":
                torch.cuda.empty_cache()
    times = in_turns({who: one.seconds for who, one in batches.items()}, several)
    for who, seconds in times.items():
        low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
        how = {"how": batches[who].how, "calls": batches[who].calls, "repeats": len(seconds)}
        seconds_by_name[who] = {"ms": middle * 1e3, "spread": (high - low) / 2 / middle, **how}
    return seconds_by_name
