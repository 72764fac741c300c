"""A cache of other ranks' rows: how many fewer are fetched than in every batch, counted exactly for an epoch of training.

Ten latest neighbours, 600 events a step of all ranks, parts of `shared-nodes`. tgl-dist reads all neighbours, memshare a tenth of the
remote ones (theta 0.1) and has a tenth of the nodes in all parts. Contestants cache up to so many rows of nodes and of events each;
the first caches none. `seconds`: of counting. All read the same rows, which is asserted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
from core.case import Case, Passes, Setting, Subject
from setups.data import events_of

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import StreamDistribution
from chronoscale.batching.streams.sampling.boundary import Boundary
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.streams.protocol import Protocol

TOGETHER, FANOUT, THETA, SHARED = 600, 10, 0.1, 0.1
ROOM = (0, 4_096, 65_536)


def count(data: str, strategy: str, ranks: int, setting: Setting) -> Passes:
    """Count what an epoch fetches with each room for rows."""
    stream = PreparedStream.of(events_of(data), Protocol())
    t = stream.whole.stream.t
    boundary = Boundary(THETA, 1 / float(t[-1] - t[0])) if strategy == "memshare" else None
    sampling = Sampling((FANOUT,), boundary=boundary)
    passes: dict[str, list[dict[str, float]]] = {}
    read = None
    for room in ROOM:
        shared, remote = (SHARED, THETA) if boundary else (0.0, 1.0)
        distribution = StreamDistribution("shared-nodes", shared, None, boundary is None, remote, cached_rows=room)
        start = time.perf_counter()
        work = DistributedStream(stream, distribution, ranks).work(False, TOGETHER // ranks, sampling, 0, 1, True)
        figures = {"seconds": time.perf_counter() - start}
        rows = work.asked_nodes + work.cached_nodes, work.asked_edges + work.cached_edges
        assert read is None or all(np.array_equal(one, other) for one, other in zip(read, rows, strict=True)), "other rows are read"
        read = rows
        for kind, asked, of in zip(("nodes", "events"), (work.asked_nodes, work.asked_edges), rows, strict=True):
            fewer = float(1 - asked.sum() / of.sum()) if of.any() else 0.0
            figures |= {f"{kind} fetched": float(asked.sum()), f"fewer {kind}, %": 100 * fewer}
        passes[f"{room:,} cached"] = [figures]
    return passes


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams by strategies and ranks."""
    streams = ("hubs-600-40",) if quick else ("uci_messages", "jodie_wikipedia", "us_flights_2001")
    for data, strategy, ranks in product(streams, ("tgl-dist", "memshare"), (2,) if quick else (2, 4, 8)):
        yield Case({"data": data, "strategy": strategy, "ranks": ranks}, partial(count, data, strategy, ranks))


SUBJECT = Subject(cases, 1)
