"""Timing: seconds a call, in batches that the host does not slow down, interleaved over all that are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Call = Callable[[], object]
BATCH_S = 0.01  # a batch takes at least this long, or MOST rounds
MOST = 64
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


def batch(calls: Sequence[Call], device: str, capture: bool) -> Batch:
    """Warm, and as many rounds over `calls` as fill BATCH_S. Calls on operands of their own keep each other's out of the L2 cache. What
    cannot be captured is enqueued; `how` says so."""
    for call in calls:
        call()
    once = Batch(lambda: _rounds(calls, 1), len(calls), STREAM if device == "cuda" else HOST)
    took = once.seconds() * len(calls)
    rounds = min(MOST, max(1, round(BATCH_S / max(took, 1e-7))))
    if device == "cuda" and capture and (replay := _captured(calls, rounds)) is not None:
        return Batch(replay, rounds * len(calls), GRAPH)
    return Batch(lambda: _rounds(calls, rounds), rounds * len(calls), once.how)


def _rounds(calls: Sequence[Call], rounds: int) -> None:
    for _ in range(rounds):
        for call in calls:
            call()


def _captured(calls: Sequence[Call], rounds: int) -> Call | None:
    """A CUDA graph's replay; None where something in the calls waits for the device."""
    before, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(before)
    with torch.cuda.stream(side):
        _rounds(calls, 1)
    before.wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            _rounds(calls, rounds)
    except RuntimeError as error:
        torch.cuda.set_stream(before)  # a capture that fails leaves its own
        print(f"not captured: {str(error).splitlines()[0]}", flush=True)
        return None
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay


def measure(contestants: Mapping[str, Sequence[Call]], device: str, repeats: int, captured: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Of each contestant `ms`, the median of interleaved repeats, `spread`, half the interquartile range over it, and `how`; or `left_out`,
    why it could not be had: it does not stop the others."""
    found: dict[str, Any] = {}
    batches: dict[str, Batch] = {}
    for who, calls in contestants.items():
        try:
            batches[who] = batch(calls, device, who in captured)
        except Exception as error:  # a rival's memory, a type that it does not take: the table says so
            found[who] = {"left_out": f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"}
            if device == "cuda":
                torch.cuda.empty_cache()
    times: dict[str, list[float]] = {who: [] for who in batches}
    for _ in range(repeats):
        for who, one in batches.items():
            times[who].append(one.seconds())
    for who, seconds in times.items():
        low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
        found[who] = {"ms": middle * 1e3, "spread": (high - low) / 2 / middle, "how": batches[who].how, "calls": batches[who].calls}
    return found
