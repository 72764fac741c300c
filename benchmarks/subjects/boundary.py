"""Boundary-decay sampling takes little more time than sampling the recent neighbours, and reads less of other ranks.

Nodes are dealt to two parts at random, an event goes with its source, and a tenth of the nodes, those with the most events, is shared.
Roots are the ends of the first part's events in the last batches of 2,000, and as many random nodes; a pass goes through all of them.
Rival: the sampler of recent neighbours on the same roots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product, starmap

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns, seconds_of
from setups.streams import BATCH, Roots, events_of

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.sampling import boundary
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR

SHARE = 0.1


def cut(stream: EventStream) -> EventPartition:
    """Return two random parts with SHARE of the nodes shared."""
    rng = np.random.default_rng(0)
    node = rng.integers(0, 2, stream.num_nodes).astype(np.int32)
    event = node[stream.src]
    degree = np.bincount(stream.src, minlength=stream.num_nodes) + np.bincount(stream.dst, minlength=stream.num_nodes)
    node[np.argsort(-degree)[: int(SHARE * stream.num_nodes)]] = SHARED
    return EventPartition(node, event, 2, "random")


def own_roots(stream: EventStream, parts: EventPartition, count: int) -> Roots:
    """Return the roots of the first part in the last `count` batches."""
    rng, roots = np.random.default_rng(1), []
    for first in range(max(len(stream) // BATCH - count, 0) * BATCH, len(stream) - BATCH + 1, BATCH):
        mine = first + np.flatnonzero(parts.event[first : first + BATCH] == 0)
        node = np.concatenate([stream.src[mine], stream.dst[mine], rng.integers(0, stream.num_nodes, mine.size).astype(np.int32)])
        roots.append((node, np.full(node.size, first, np.int32)))
    return roots


def measure(name: str, fanout: int, count: int, setting: Setting) -> Passes:
    """Time the samplers, and count how many slots they fill and how many of those are remote."""
    stream, threads = events_of(name), setting.threads
    parts = cut(stream)
    roots, seat, graph, decay = own_roots(stream, parts, count), LocalPart(parts, 0), TCSR.of(stream), 1 / float(np.ptp(stream.t))
    total, here = sum(len(node) for node, _ in roots), parts.here(0)
    of = {
        "theta 0.1": Boundary(0.1, complete=False),
        "theta 0.1, decay": Boundary(0.1, decay, complete=False),
        "theta 0.1, decay, completed": Boundary(0.1, decay),
        "theta 0, completed": Boundary(0.0),
    }
    samplers: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
        "recent": lambda node, before: graph.sample(node, before, fanout, threads=threads)
    }
    for who, one in of.items():
        samplers[who] = lambda node, before, one=one: boundary.sample(graph, stream.t, seat, node, before, fanout, one, 0, threads)  # type: ignore[misc]
    shares = {}
    for who, sample in samplers.items():
        samples = list(starmap(sample, roots))
        events, nodes = (np.concatenate([getattr(one, key).ravel() for one in samples]) for key in ("event", "neighbor"))
        slots = int((events >= 0).sum())
        near = int(((parts.event[events] == 0) & here[nodes] & (events >= 0)).sum())
        shares[who] = {"slots a root": slots / total, "remote, %": 100 * (slots - near) / slots}

    def once(who: str) -> dict[str, float]:
        return {"seconds": seconds_of(lambda: list(starmap(samplers[who], roots))), **shares[who]}

    return in_turns({who: partial(once, who) for who in samplers}, setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield data sets."""
    for name, count in product(("hubs-9000-200",), (2,)) if quick else product(("jodie_wikipedia", "us_flights_2001"), (100,)):
        yield Case({"stream": name, "batches": count, "fanout": 10}, partial(measure, name, 10, count))


SUBJECT = Subject(cases, 15)
