"""FAST as its public code samples beside FAST as the paper says: rows that a batch reads, and the share that has to be sent.

TGAT of two layers, ten latest neighbours, batches of 2,000, rows of one width for nodes and events, a fifth of the features cached; an
epoch of training, counted exactly. Contestants differ from `fast` in one thing each, and `fast-published` in all three. `left`: of the
different rows of a batch, those that are not cached, which are sent. `sampled`: rows before compression; `seconds`: of counting. wikitalk
is a generated stand-in, its first million events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from core.case import Case, Passes, Setting, Subject
from setups.data import events_of

from chronoscale.batching.streams.caching.loading import Loading
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.study.testbeds.host_streams import prepared
from chronoscale.strategies.streams.placements import Greedy

FANOUTS, RATIO, PRESAMPLE, WIDTH, PART = (10, 10), 0.2, 400, 688, 1_000_000
FAST = Sampling(FANOUTS, unique=False)
SENT, ANY = replace(FAST, outgoing=True), replace(FAST, all_nodes=True)
CONTESTANTS = {  # how batches are sampled, and whether the cache is chosen by the first half of training
    "fast": (FAST, False),
    "first half": (FAST, True),
    "neighbours of sent events": (SENT, False),
    "negatives of all nodes": (ANY, False),
    "fast-published": (replace(SENT, all_nodes=True), True),
}


def count(data: str, batch: int, setting: Setting) -> Passes:
    """Count an epoch of each contestant."""
    stream = prepared(data, PART) if data == "wikitalk" else PreparedStream.of(events_of(data), Protocol())
    passes: dict[str, list[dict[str, float]]] = {}
    for name, (sampling, first_half) in CONTESTANTS.items():
        start = time.perf_counter()
        loading = Loading(True, Greedy(), RATIO, PRESAMPLE, WIDTH, WIDTH, first_half=first_half)
        work = stream.work(False, 1, batch, sampling, loading=loading)
        sampled, once = (work.nodes + work.edges).sum(), (work.unique_nodes + work.unique_edges).sum()
        figures = {"sampled rows a batch": sampled / len(work), "different rows a batch": once / len(work)}
        left = 100 * (work.sent_nodes + work.sent_edges).sum() / once
        passes[name] = [
            {"seconds": time.perf_counter() - start, **{key: float(value) for key, value in figures.items()}, "left, %": float(left)}
        ]
    return passes


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams."""
    for data, batch in (("hubs-600-40", 60),) if quick else (("uci_messages", 2000), ("jodie_wikipedia", 2000), ("wikitalk", 2000)):
        yield Case({"data": data}, partial(count, data, batch))


SUBJECT = Subject(cases, 1)
