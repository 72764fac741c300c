"""The restreaming partitioner of event streams fetches fewer bytes than others.

Claim: `restream` fetches no more bytes than the better of METIS and `shared-nodes`, at their balance: `restream-even` and `restream-uneven`
differ in balance alone. Seconds of one thread, without the digest of the stream's content; METIS begins a process of its own,
which takes some 1.5 of them. node rows, event rows: fetched in one pass over the stream in batches of 600 events a part with 10 neighbours,
each once a batch, without negatives; MB: at 400 and 688 bytes. cut, remote, max/mean, worst: of `PartitionQuality`; events and nodes: the
largest part over the mean. That streams on disk are cut in little memory is held by tests/batching.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns
from setups.data import events_of

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.partitioning.partitioner import Partitioner, PartitionRequest
from chronoscale.batching.streams.partitioning.policies import PARTITIONERS
from chronoscale.batching.streams.partitioning.quality import PartitionQuality
from chronoscale.batching.streams.partitioning.restreaming_partitioner import RestreamingPartitioner
from chronoscale.batching.streams.partitioning.shared_nodes import most_active_nodes
from chronoscale.batching.streams.partitioning.stream_partition import default_decay
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.distribution import RankAssignment
from chronoscale.batching.streams.ranks.remote_reads import count_fetched_rows
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.cuda_ext.scheduling.restream import RestreamSettings
from chronoscale.datasets.streams.tcsr import TCSR

CONTESTANTS: dict[str, Partitioner] = {
    **PARTITIONERS,
    "restream-even": RestreamingPartitioner(settings=RestreamSettings(batch_slack=0.02)),
    "restream-uneven": RestreamingPartitioner(settings=RestreamSettings(batch_slack=0.25, pressure=4.0)),
}
NEIGHBOURS, NODE_BYTES, EVENT_BYTES = 10, 400, 688


def quality(division: PartitionQuality) -> dict[str, float]:
    """Return what a partition is judged by."""
    ratios = {"cut, %": 100 * division.cut_ratio, "remote, %": 100 * division.remote_ratio}
    balance = {"max/mean": float(division.balance.mean()), "worst": float(division.balance.max())}
    return {**ratios, **balance, **{key: float(of.max() / of.mean()) for key in ("events", "nodes") for of in (getattr(division, key),)}}


def fetched(source: IndexedStream, parts: EventPartition, batch: int) -> dict[str, float]:
    """Return the rows that parts fetch."""
    assignment = RankAssignment(BatchAssignment(range(len(source.stream)), parts.count, batch), parts)
    rows = count_fetched_rows(source, assignment, NEIGHBOURS)
    fetched_bytes = rows.nodes * NODE_BYTES + rows.events * EVENT_BYTES
    return {"node rows": float(rows.nodes), "event rows": float(rows.events), "MB": fetched_bytes / 1e6}


def measure(name: str, share: float, parts: int, batch: int, setting: Setting) -> Passes:
    """Partition with every contestant."""
    stream = events_of(name)
    source = IndexedStream(stream, TCSR.of(stream))

    def once(policy: str) -> dict[str, float]:
        start = time.perf_counter()
        blocks: list[np.ndarray] = []
        request = PartitionRequest(stream, parts, most_active_nodes(stream, share), default_decay(stream), 0, batch, NEIGHBOURS)
        node = CONTESTANTS[policy](request, blocks.append)
        spent = time.perf_counter() - start
        partition = EventPartition(node, np.concatenate(blocks), parts)
        return {"seconds": spent, **fetched(source, partition, batch), **quality(PartitionQuality.of(stream, partition, batch))}

    return in_turns({policy: partial(once, policy) for policy in CONTESTANTS}, setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams by shares of shared nodes and numbers of parts."""
    names = ("events-40-600",) if quick else ("us_flights_2001", "jodie_wikipedia", "uci_messages", "events-200000-3000000")
    for name, share, parts in product(names, (0.1,) if quick else (0.0, 0.1), (2,) if quick else (2, 4, 8)):
        yield Case({"stream": name, "shared": share, "parts": parts}, partial(measure, name, share, parts, 30 if quick else 600))


SUBJECT = Subject(cases, 3, ("dgl",))
