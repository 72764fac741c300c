"""MemShare's partitioner of event streams cuts less than others in less time.

Seconds of one thread, without the digest of the stream's content; METIS begins a process of its own, which takes some 1.5 of them. cut,
remote, max/mean, worst as `chronoscale data partition` has them, events and nodes: the largest part over the mean. Rivals: METIS and every
other policy. That streams on disk are cut in little memory is held by tests/batching.
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
from chronoscale.batching.streams.partitioning.partitioner import PartitionRequest
from chronoscale.batching.streams.partitioning.policies import PARTITIONERS
from chronoscale.batching.streams.partitioning.quality import PartitionQuality
from chronoscale.batching.streams.partitioning.shared_nodes import most_active_nodes
from chronoscale.batching.streams.partitioning.stream_partition import default_decay


def quality(division: PartitionQuality) -> dict[str, float]:
    """Return what a partition is judged by."""
    ratios = {"cut, %": 100 * division.cut_ratio, "remote, %": 100 * division.remote_ratio}
    balance = {"max/mean": float(division.balance.mean()), "worst": float(division.balance.max())}
    return {**ratios, **balance, **{key: float(of.max() / of.mean()) for key in ("events", "nodes") for of in (getattr(division, key),)}}


def measure(name: str, share: float, parts: int, batch: int, setting: Setting) -> Passes:
    """Partition with every policy."""
    stream = events_of(name)

    def once(policy: str) -> dict[str, float]:
        start = time.perf_counter()
        blocks: list[np.ndarray] = []
        request = PartitionRequest(stream, parts, most_active_nodes(stream, share), default_decay(stream), 0)
        node = PARTITIONERS[policy](request, blocks.append)
        spent = time.perf_counter() - start
        return {"seconds": spent, **quality(PartitionQuality.of(stream, EventPartition(node, np.concatenate(blocks), parts), batch))}

    return in_turns({policy: partial(once, policy) for policy in PARTITIONERS}, setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams by shares of shared nodes, in 8 parts."""
    names = ("events-40-600",) if quick else ("us_flights_2001", "jodie_wikipedia", "uci_messages", "events-200000-3000000")
    for name, share in product(names, (0.1,) if quick else (0.0, 0.1)):
        parts, batch = (2, 30) if quick else (8, 600)
        yield Case({"stream": name, "shared": share}, partial(measure, name, share, parts, batch))


SUBJECT = Subject(cases, 3, ("dgl",))
