"""Sampling threads bound by affinity (FAST, section 4.4) take less time than bound in order, at random, or not at all.

On all processors of this process, whatever they share: bound threads have a part of a batch each, unbound ones take what comes next; other
work on a bound thread's CPU is waited for: then the mean of batches is far above their median. What caches of FAST's own server would do
is modelled by `chronoscale reproduce fast`.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from functools import partial

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns, seconds_of
from setups.data import BATCH, batches, events_of

from chronoscale.batching.streams.sampling.affinity import SIMILARITIES, thread_affinity
from chronoscale.batching.streams.sampling.thread_binding import bind_by_affinity
from chronoscale.cuda_ext.sampling import bound_threads
from chronoscale.cuda_ext.sampling.cpu_topology import CpuTopology
from chronoscale.datasets.streams.tcsr import TCSR

FANOUT = 10


def measure(name: str, count: int, threads: int, setting: Setting) -> Passes:
    """Time the last batches."""
    stream = events_of(name)
    graph, roots = TCSR.of(stream), list(batches(stream, max(0, len(stream) - count * BATCH)))
    numbers = [cpu.number for cpu in CpuTopology.detect().cpus][:threads]
    ways: dict[str, list[int]] = {"unbound": [], "in order": numbers, "at random": np.random.default_rng(0).permutation(numbers).tolist()}
    for similarity in SIMILARITIES:
        if (binding := bind_by_affinity(thread_affinity(graph, roots, len(numbers), similarity=similarity), CpuTopology.detect())).cpus:
            ways[f"affinity, {similarity}"] = list(binding.cpus)

    def epoch(cpus: list[int]) -> dict[str, float]:
        with bound_threads.threads_bound_to(cpus):
            of = (partial(graph.sample, *batch, FANOUT, threads=0 if cpus else len(numbers)) for batch in roots)
            spent = [seconds_of(call) for call in of]
        return {"seconds": statistics.fmean(spent), "median batch, s": statistics.median(spent)}

    return in_turns({way: partial(epoch, cpus) for way, cpus in ways.items()}, setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams, with all processors."""
    for name in ("hubs-9000-400",) if quick else ("us_flights_2001", "hubs-1000000-500000"):
        count, cores = (2, 2) if quick else (100, os.cpu_count() or 1)
        yield Case({"stream": name, "batches": count, "bound": cores}, partial(measure, name, count, cores))


SUBJECT = Subject(cases, 9)
