"""MemShare's eq. 25, corrected, says what ranks exchange within a few per cent of what is counted in the sampler's output.

Generated streams are power laws (Zipf exponents 0.95), half of the nodes items (`bipartite`), or none. Rows of 400 bytes, features of 688
(172 float32). Counted, the contestant that others are compared with: neighbours one by one, with repeats, in batches of 200 events a
part, as boundary decay finds them, with completion; all events are trained on, each told from one negative. Estimates: `printed`, eq. 25;
`approximated`, with λ̂ = λ⁰; `corrected`. `of counted`: bytes over the counted ones; `negatives`: those for negatives alone. A pass is a
seed of a generated stream.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from core.case import Case, Passes, Setting, Subject
from setups.streams import events_of

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.partitioning.remoteness import COLD, HOT, NEGATIVE, EventNegatives, Remoteness, partition_negatives
from chronoscale.batching.streams.partitioning.stream_partition import default_decay, partition_stream
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.distribution import RankAssignment, StreamDistribution
from chronoscale.batching.streams.ranks.remote_reads import DistributedStatistics, count_distributed_batches
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.strategies.memshare.communication import (
    Communication,
    RowBytes,
    StreamCut,
    estimate_communication,
    published_communication,
)

WIDTHS = RowBytes(400, 688, 400)
SKEW, NEIGHBOURS = 0.95, 10


@dataclass(frozen=True, slots=True)
class PartedStream:
    """A stream in parts, and its batches; `remote`: share of the nodes that negatives are drawn from."""

    source: IndexedStream
    parts: EventPartition
    batch: int
    neighbours: int
    remote: float = 1.0

    @property
    def allotment(self) -> RankAssignment:
        """Which events each rank has in each iteration."""
        return RankAssignment(BatchAssignment(range(len(self.source.stream)), self.parts.count, self.batch), self.parts)

    @property
    def others(self) -> EventNegatives:
        """Negatives of events."""
        return partition_negatives(self.source.stream, self.parts, self.remote)

    def sampling(self, theta: float, unique: bool) -> Sampling:
        """Return how neighbours are sampled."""
        boundary = Boundary(theta, default_decay(self.source.stream))
        return Sampling((self.neighbours,), unique=unique, boundary=boundary)

    def remoteness(self) -> Remoteness:
        """Return what the equation reads of the stream."""
        return Remoteness.of(self.source.stream, self.parts, self.neighbours, self.parts.count * self.batch, self.others)


def slots(of: PartedStream, theta: float, seed: int = 0) -> Remoteness:
    """Count what `Remoteness` has, one by one in the sampler's output; `seed`: of its coins."""
    source, allotment, parts, sampling, others = of.source, of.allotment, of.parts, of.sampling(theta, False), of.others
    totals, ends = np.zeros((5, 3), np.int64), (source.stream.src, source.stream.dst)
    for iteration in range(allotment.iterations):
        for rank in range(parts.count):
            if not (own := allotment.rank_events(iteration, rank)).size:
                continue
            roots = source.roots(own, others(own)[:, None], allotment.before(iteration, rank))
            sampled = neighbourhood.sample(source.tcsr, source.stream.t, roots, sampling, seed, local_part=LocalPart(parts, rank))
            tree = sampled.trees[0]
            kind = np.where(parts.node[roots[0]] == SHARED, HOT, COLD)
            kind[2 * own.size :] = NEGATIVE
            there, home = tree.hops[0].there, parts.node[sampled.nodes]
            kinds, slot = kind.repeat(there.sum(1)), home[tree.levels[1][tree.hops[0].slot[there]]]
            totals[0] += np.bincount(kind, minlength=3)
            totals[2] += np.bincount(kinds, minlength=3)
            away = (home[tree.levels[0]] != rank) & (home[tree.levels[0]] != SHARED)
            totals[1] += np.bincount(kind[away], minlength=3)
            totals[3] += np.bincount(kinds[parts.event[sampled.edges[tree.hops[0].edge[there]]] != rank], minlength=3)
            totals[4] += np.bincount(kinds[(slot != rank) & (slot != SHARED)], minlength=3)
    first, second = (parts.node[end] for end in ends)
    cut = int(np.count_nonzero((first != second) & (first != SHARED) & (second != SHARED)))
    return Remoteness(parts.count, len(source.stream), of.neighbours, cut, *totals)


def once(of: PartedStream, theta: float) -> DistributedStatistics:
    """Count what ranks fetch where each row comes once a batch."""
    spread, others = StreamDistribution(newest=True, remote=of.remote), of.others
    return count_distributed_batches(
        of.source, of.allotment, spread, of.sampling(theta, True), lambda events, _: others(events)[:, None], 0, True
    )


def fetched(of: Communication) -> float:
    """Return bytes of events' ends, which is what the equation knows."""
    return of.fetched - of.told


def compare(stream: EventStream, parts: int, policy: str, share: float, theta: float, batch: int) -> Passes:
    """Return one pass of what is counted and of each estimate."""
    source = IndexedStream(stream, TCSR.of(stream))
    of = PartedStream(source, partition_stream(stream, parts, policy, share, None, 0), batch, NEIGHBOURS)
    unshared = PartedStream(source, partition_stream(stream, parts, policy, 0.0, None, 0), batch, NEIGHBOURS).remoteness()
    start, found = time.perf_counter(), of.remoteness()
    printed, near = (
        published_communication(StreamCut.of(found, remote), WIDTHS, NEIGHBOURS, theta) for remote in (None, unshared.cut / unshared.events)
    )
    corrected, spent = estimate_communication(found, WIDTHS, theta), time.perf_counter() - start
    start = time.perf_counter()
    exact = estimate_communication(slots(of, theta), WIDTHS, 1.0)
    counting, work, events, hot = time.perf_counter() - start, once(of, theta), len(stream), float(found.roots[HOT])
    fetched_bytes = float(WIDTHS.node * work.asked_nodes.sum() + WIDTHS.edge * work.asked_edges.sum())
    unique = {
        "fetched once a batch": fetched_bytes / exact.fetched,
        "synchronised once a batch": float(work.shared.sum()) / hot if hot else float("nan"),
    }
    estimates = {"printed": printed, "approximated": near, "corrected": corrected}
    return {
        "counted": [{"seconds": counting, "bytes an event": fetched(exact) / events, "negatives, bytes": exact.told / events, **unique}],
        **{who: [{"seconds": spent, "of counted": fetched(one) / fetched(exact)}] for who, one in estimates.items() if who != "corrected"},
        "corrected": [
            {"seconds": spent, "of counted": fetched(corrected) / fetched(exact), "negatives of counted": corrected.told / exact.told}
        ],
    }


def measure(name: str, given: tuple[int, str, float, float], sizes: tuple[int, int, int], setting: Setting) -> Passes:
    """Compare one setting over the seeds of a generated stream, or once."""
    passes: dict[str, list[dict[str, float]]] = {}
    nodes, events, batch = sizes
    generated = name in ("power-law", "bipartite")
    for seed in range(setting.repeats if generated else 1):
        items = nodes // 2 if name == "bipartite" else 0
        stream = RandomStream(nodes, events, events // 4, items, SKEW, SKEW, seed=seed).stream() if generated else events_of(name)
        for who, several in compare(stream, *given, batch).items():
            passes.setdefault(who, []).extend(dict(one) for one in several)
    return passes


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams by parts, partitioner, share of shared nodes and θ."""
    names, sizes = (
        (("power-law",), (100, 1_000, 50))
        if quick
        else (("power-law", "bipartite", "jodie_wikipedia", "uci_messages"), (3_000, 60_000, 200))
    )
    settings = (
        [(2, "shared-nodes", 0.1, 0.5)]
        if quick
        else product((2, 8), ("shared-nodes", "metis"), (0.0, 0.01, 0.05, 0.1, 0.2), (0.1, 0.5, 1.0))
    )
    for name, given in product(names, settings):
        parameters = dict(zip(("parts", "partitioner", "shared", "theta"), given, strict=True))
        yield Case({"stream": name, **parameters}, partial(measure, name, given, sizes))


SUBJECT = Subject(cases, 3, ("dgl",))
