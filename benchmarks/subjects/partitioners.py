"""MemShare's partitioner of event streams cuts less than others in less time, and partitions streams on disk in little memory.

`whole`: seconds of one thread, without the digest of the stream's content; METIS begins a process of its own, which takes some 1.5 of them.
cut, remote, max/mean, worst as `chronoscale data partition` has them, events and nodes: the largest part over the mean. Rivals: METIS and
every other policy. `an event`: nanoseconds of the pass itself, native and by the reference in plain Python. `on disk`: streams of 16,681
nodes (GDELT's) are cut into files, each in a process of its own; `memory, MB` is the most that was resident beyond what the process had
before, mapped files counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns
from setups.process import fresh, memory, reset_peak
from setups.streams import events_of

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.partitioning.partitioner import PartitionRequest, elapsed_time
from chronoscale.batching.streams.partitioning.policies import PARTITIONERS
from chronoscale.batching.streams.partitioning.quality import PartitionQuality
from chronoscale.batching.streams.partitioning.shared_nodes import most_active_nodes
from chronoscale.batching.streams.partitioning.stream_partition import default_decay, partition_stream
from chronoscale.cuda_ext.reference import event_partitioner as reference
from chronoscale.cuda_ext.scheduling.event_partitioner import EventPartitioner
from chronoscale.datasets import store
from chronoscale.datasets.arrays import release
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream

NODES, REFERENCE = 16_681, 200_000


def stream_of(name: str) -> EventStream:
    """Return a stream, or the generated `power-law-EVENTS`, whose sources and partners follow Zipf's law."""
    if name.startswith("power-law-"):
        events = int(name.removeprefix("power-law-"))
        return RandomStream(events // 15, events, events // 3, source_skew=1.0, destination_skew=1.0).stream()
    return events_of(name)


def quality(division: PartitionQuality) -> dict[str, float]:
    """Return what a partition is judged by."""
    ratios = {"cut, %": 100 * division.cut_ratio, "remote, %": 100 * division.remote_ratio}
    balance = {"max/mean": float(division.balance.mean()), "worst": float(division.balance.max())}
    return {**ratios, **balance, **{key: float(of.max() / of.mean()) for key in ("events", "nodes") for of in (getattr(division, key),)}}


def whole(name: str, share: float, parts: int, batch: int, setting: Setting) -> Passes:
    """Partition with every policy."""
    stream = stream_of(name)

    def once(policy: str) -> dict[str, float]:
        start = time.perf_counter()
        blocks: list[np.ndarray] = []
        node = PARTITIONERS[policy](
            PartitionRequest(stream, parts, most_active_nodes(stream, share), default_decay(stream), 0), blocks.append
        )
        spent = time.perf_counter() - start
        return {"seconds": spent, **quality(PartitionQuality.of(stream, EventPartition(node, np.concatenate(blocks), parts), batch))}

    return in_turns({policy: partial(once, policy) for policy in PARTITIONERS}, setting.repeats)


def an_event(name: str, share: float, parts: int, setting: Setting) -> Passes:
    """Time the pass over the events, natively over all and in Python over the first."""
    stream = stream_of(name)
    mask, decay = most_active_nodes(stream, share), default_decay(stream)

    def once(count: int, native: bool) -> dict[str, float]:
        columns = np.asarray(stream.src[:count]), np.asarray(stream.dst[:count]), elapsed_time(stream, slice(0, count))
        partitioner = EventPartitioner.start(mask, parts, decay)
        start = time.perf_counter()
        if native:
            partitioner.assign(*columns)
        else:
            reference.assign(partitioner, *columns, np.empty(count, np.int32))
        spent = time.perf_counter() - start
        return {"seconds": spent / count, "events": count}

    few = min(REFERENCE, len(stream))
    return in_turns({"native": partial(once, len(stream), True), "Python": partial(once, few, False)}, setting.repeats)


def cut_files(folder: Path, share: float, parts: int) -> dict[str, float]:
    """Partition a stored stream into files, and look at this process's memory."""
    stream = store.load(folder / "stream")
    assert isinstance(stream, EventStream)
    partition_stream(stream.span(0, 1000), parts, shared=share)  # what is imported late is there before anything is measured
    for column in (stream.src, stream.dst, stream.t):
        release(column)
    before, start = reset_peak(), time.perf_counter()
    partition = partition_stream(stream, parts, shared=share, folder=folder / "parts")
    spent, most = time.perf_counter() - start, memory("VmHWM") - before
    return {"seconds": spent, "memory, MB": most / 1e6, **quality(PartitionQuality.of(stream, partition, 3000))}


def on_disk(events: int, share: float, parts: int, setting: Setting) -> Passes:
    """Partition a stream on disk once."""
    store.save_events(setting.scratch / "stream", RandomStream(NODES, events, events // 16))
    return {"shared-nodes": [fresh(cut_files, setting.scratch, share, parts)]}


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams by shares of shared nodes, in 8 parts."""
    names = ("power-law-600",) if quick else ("us_flights_2001", "jodie_wikipedia", "uci_messages", "power-law-3000000")
    for name, share in product(names, (0.1,) if quick else (0.0, 0.1)):
        parts, batch = (2, 30) if quick else (8, 600)
        yield Case({"what": "whole", "stream": name, "shared": share}, partial(whole, name, share, parts, batch))
        yield Case({"what": "an-event", "stream": name, "shared": share}, partial(an_event, name, share, parts))
    for events, share in () if quick else product((5_000_000, 20_000_000), (0.0, 0.1)):
        yield Case({"what": "on-disk", "events": events, "shared": share}, partial(on_disk, events, share, 8))


SUBJECT = Subject(cases, 3, ("dgl",))
