"""The native sampler of temporal neighbours takes less time than NumPy's, boundary decay little more, and distinct ids less than np.unique.

A pass goes through batches of 2,000 events, whose sources, destinations and as many random nodes are the roots; `ns an item`: of sampled
edges, or of ids.

policies  every policy; the rival, `recent` in NumPy, searches one sorted array of (node, event) keys. `of roofline`: edges a second and
          thread over those of copying every byte that must be read or written once
boundary  MemShare's boundary decay on the first of two parts; the rival, with which others are compared, takes the recent neighbours.
          Nodes are dealt to parts at random, an event goes with its source, a tenth of the nodes, those with the most events, is shared
distinct  ids of a batch's neighbours: `distinct` of filled slots one after another, `compressed` of slots as they are sampled, which
          leaves out empty ones. Rivals: np.unique with its inverse, the NumPy reference
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns, seconds_of
from setups.data import BATCH, Roots, batches, events_of

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.sampling import boundary
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.cuda_ext.reference import unique_ids as reference
from chronoscale.cuda_ext.sampling.temporal import POLICIES
from chronoscale.cuda_ext.sampling.unique_ids import compress_slots, unique_ids
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR

FANOUT, SHARED_NODES = 10, 0.1
Way = Callable[..., Any]  # of what a batch is given


def through(
    ways: Mapping[str, Way],
    given: Sequence[tuple[Any, ...]],
    items: int,
    repeats: int,
    figures: Callable[[str, float], Mapping[str, float]] = lambda who, seconds: {},
) -> Passes:
    """Take turns in going through all batches; `figures`: others of a pass, by contestant and seconds."""

    def once(who: str) -> dict[str, float]:
        seconds = seconds_of(lambda: [ways[who](*batch) for batch in given])
        return {"seconds": seconds, "ns an item": 1e9 * seconds / items, **figures(who, seconds)}

    in_turns({who: partial(once, who) for who in ways}, 1)
    return in_turns({who: partial(once, who) for who in ways}, repeats)


def in_numpy(graph: TCSR) -> Way:
    """Return the rival of the policies; it returns how many neighbours it has found."""
    keys = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)) << 32 | graph.event

    def sample(node: np.ndarray, before: np.ndarray) -> int:
        end = np.searchsorted(keys, node.astype(np.int64) << 32 | before)
        at = end[:, None] - np.arange(FANOUT, 0, -1)
        there = at >= graph.indptr[node][:, None]
        neighbor, event = (np.where(there, column[at], -1) for column in (graph.neighbor, graph.event))
        return int(there.sum()) + 0 * (neighbor.size + event.size)

    return sample


def bytes_copied_s(size: int) -> float:
    """Return bytes read and written a second by one thread's copy of as much memory."""
    source, into = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    return 2 * size / statistics.median(seconds_of(partial(np.copyto, into, source)) for _ in range(9))


def policies(name: str, setting: Setting) -> Passes:
    """Time every policy and the rival over a whole stream."""
    stream = events_of(name)
    graph, roots = TCSR.of(stream), list(batches(stream))
    ways: dict[str, Way] = {
        policy: lambda node, before, p=policy: int(graph.sample(node, before, FANOUT, p, threads=setting.threads).counts.sum())
        for policy in POLICIES
    }
    ways["NumPy, recent"] = in_numpy(graph)
    counts = {sum(way(*batch) for batch in roots) for way in ways.values()}
    assert len(counts) == 1, f"numbers of edges differ: {counts}"
    edges = counts.pop()
    moved = sum(len(node) for node, _ in roots) * (4 + 4 + 16 + 4 + 8 * FANOUT) + 8 * edges
    least = moved / bytes_copied_s(moved // 2)

    def figures(who: str, seconds: float) -> dict[str, float]:
        return {"of roofline": least / seconds / (1 if who.startswith("NumPy") else setting.threads)}

    return through(ways, roots, edges, setting.repeats, figures)


def partition(stream: EventStream) -> EventPartition:
    """Return two random parts with SHARED_NODES of the nodes shared."""
    node = np.random.default_rng(0).integers(0, 2, stream.num_nodes).astype(np.int32)
    event = node[stream.src]
    degree = np.bincount(stream.src, minlength=stream.num_nodes) + np.bincount(stream.dst, minlength=stream.num_nodes)
    node[np.argsort(-degree)[: int(SHARED_NODES * stream.num_nodes)]] = SHARED
    return EventPartition(node, event, 2, "random")


def own_roots(stream: EventStream, parts: EventPartition, count: int) -> Roots:
    """Return the roots of the first part in the last `count` batches."""
    rng, roots = np.random.default_rng(1), []
    for first in range(max(len(stream) // BATCH - count, 0) * BATCH, len(stream) - BATCH + 1, BATCH):
        mine = first + np.flatnonzero(parts.event[first : first + BATCH] == 0)
        node = np.concatenate([stream.src[mine], stream.dst[mine], rng.integers(0, stream.num_nodes, mine.size).astype(np.int32)])
        roots.append((node, np.full(node.size, first, np.int32)))
    return roots


def at_boundaries(name: str, count: int, setting: Setting) -> Passes:
    """Time the samplers, and count how many slots they fill and how many of those are remote."""
    stream, threads = events_of(name), setting.threads
    parts, graph, decay = partition(stream), TCSR.of(stream), 1 / float(np.ptp(stream.t))
    roots, seat, here = own_roots(stream, parts, count), LocalPart(parts, 0), parts.here(0)
    ways: dict[str, Way] = {"recent": lambda node, before: graph.sample(node, before, FANOUT, threads=threads)}
    for who, one in {
        "theta 0.1": Boundary(0.1, complete=False),
        "theta 0.1, decay": Boundary(0.1, decay, complete=False),
        "theta 0.1, decay, completed": Boundary(0.1, decay),
        "theta 0, completed": Boundary(0.0),
    }.items():
        ways[who] = lambda node, before, one=one: boundary.sample(graph, stream.t, seat, node, before, FANOUT, one, 0, threads)
    total, shares, slots = sum(len(node) for node, _ in roots), {}, 0
    for who, sample in ways.items():
        samples = [sample(*batch) for batch in roots]
        events, nodes = (np.concatenate([getattr(one, key).ravel() for one in samples]) for key in ("event", "neighbor"))
        slots = int((events >= 0).sum())
        near = int(((parts.event[events] == 0) & here[nodes] & (events >= 0)).sum())
        shares[who] = {"slots a root": slots / total, "remote, %": 100 * (slots - near) / slots}
    return through(ways, roots, slots, setting.repeats, lambda who, seconds: shares[who])


def distinct(name: str, count: int, setting: Setting) -> Passes:
    """Time ways to find the distinct neighbours of the last batches."""
    stream, threads = events_of(name), setting.threads
    graph = TCSR.of(stream)
    hops = [graph.sample(node, before, FANOUT, threads=1) for node, before in list(batches(stream))[-count:]]
    given = [(hop.neighbor, hop.counts, hop.neighbor[hop.neighbor >= 0]) for hop in hops]
    ways: dict[str, Way] = {
        "distinct": lambda slots, counts, flat: unique_ids(flat, threads),
        "compressed": lambda slots, counts, flat: compress_slots(slots, counts, threads),
        "np.unique with inverse": lambda slots, counts, flat: np.unique(flat, return_inverse=True),
        "distinct, NumPy": lambda slots, counts, flat: reference.unique_ids(flat),
        "compressed, NumPy": lambda slots, counts, flat: reference.unique_ids(reference.filled_slots(slots, counts)[0]),
    }
    for who, way in ways.items():
        assert np.array_equal(np.sort(way(*given[0])[0]), np.unique(given[0][2])), f"{who} finds other ids"
    return through(ways, given, sum(len(flat) for *_, flat in given), setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams."""
    stream = "hubs-5000-200" if quick else "hubs-1000000-50000"
    yield Case({"what": "policies", "stream": stream}, partial(policies, stream))
    yield Case({"what": "distinct", "stream": stream}, partial(distinct, stream, 2 if quick else 40))
    for name in ("hubs-5000-200",) if quick else ("jodie_wikipedia", "us_flights_2001"):
        yield Case({"what": "boundary", "stream": name}, partial(at_boundaries, name, 2 if quick else 100))


SUBJECT = Subject(cases, 9)
