"""The native sampler of temporal neighbours takes less time than a vectorised NumPy one, and comes near what memory allows.

A stream whose ends follow a power law is gone through in batches of 2,000 events, whose sources, destinations and as many random nodes are
the roots; a pass is an epoch. Rival: NumPy, `recent` alone, which searches one sorted array of (node, event) keys. `of roofline`: edges a
second and thread over those of copying every byte that must be read or written once.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns, seconds_of
from setups.streams import Roots, batches, events_of

from chronoscale.cuda_ext.sampling.temporal import POLICIES
from chronoscale.datasets.streams.tcsr import TCSR

Sample = Callable[[np.ndarray, np.ndarray], int]  # how many edges of a batch


def in_numpy(graph: TCSR, fanout: int) -> Sample:
    """Return the rival."""
    keys = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)) << 32 | graph.event

    def sample(node: np.ndarray, before: np.ndarray) -> int:
        end = np.searchsorted(keys, node.astype(np.int64) << 32 | before)
        at = end[:, None] - np.arange(fanout, 0, -1)
        there = at >= graph.indptr[node][:, None]
        neighbor, event = (np.where(there, column[at], -1) for column in (graph.neighbor, graph.event))
        return int(there.sum()) + 0 * (neighbor.size + event.size)

    return sample


def bytes_copied_s(size: int) -> float:
    """Return bytes read and written a second by one thread's copy of as much memory."""
    source, into = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    return 2 * size / statistics.median(seconds_of(partial(np.copyto, into, source)) for _ in range(9))


def epoch(sample: Sample, roots: Roots) -> dict[str, float]:
    """Return seconds of all batches, and their edges."""
    edges = 0

    def whole() -> None:
        nonlocal edges
        edges = sum(sample(*batch) for batch in roots)

    return {"seconds": seconds_of(whole), "edges": edges}


def measure(name: str, fanout: int, setting: Setting) -> Passes:
    """Time epochs of every policy and of the rival."""
    stream = events_of(name)
    graph, roots = TCSR.of(stream), list(batches(stream))
    samples: dict[str, Sample] = {
        policy: lambda node, before, p=policy: int(graph.sample(node, before, fanout, p, threads=setting.threads).counts.sum())  # type: ignore[misc]
        for policy in POLICIES
    }
    samples["numpy, recent"] = in_numpy(graph, fanout)
    counted = {who: epoch(sample, roots)["edges"] for who, sample in samples.items()}
    assert len(set(counted.values())) == 1, f"numbers of edges differ: {counted}"
    edges = next(iter(counted.values()))
    moved = sum(len(node) for node, _ in roots) * (4 + 4 + 16 + 4 + 8 * fanout) + 8 * int(edges)
    least = moved / bytes_copied_s(moved // 2)
    passes = in_turns({who: partial(epoch, sample, roots) for who, sample in samples.items()}, setting.repeats)
    threads = {who: 1 if who.startswith("numpy") else setting.threads for who in passes}
    return {who: [{**one, "of roofline": least / one["seconds"] / threads[who]} for one in several] for who, several in passes.items()}


def cases(quick: bool) -> Iterator[Case]:
    """Yield the one stream."""
    name = "hubs-5000-200" if quick else "hubs-1000000-50000"
    yield Case({"stream": name, "fanout": 10}, partial(measure, name, 10))


SUBJECT = Subject(cases, 9)
