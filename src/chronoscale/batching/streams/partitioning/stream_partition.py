"""Partitioning of a stream by a named policy, in memory or into a folder."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from math import isfinite
from pathlib import Path

import numpy as np

from chronoscale.batching.streams.partitioning.partition import EVENT, EventPartition
from chronoscale.batching.streams.partitioning.partitioner import BATCH, BLOCK, NEIGHBOURS, PartitionRequest, elapsed_time
from chronoscale.batching.streams.partitioning.policies import find_partitioner
from chronoscale.batching.streams.partitioning.restreaming_partitioner import RestreamingPartitioner
from chronoscale.batching.streams.partitioning.shared_nodes import most_active_nodes
from chronoscale.datasets.arrays import Int32, release
from chronoscale.datasets.atomic import atomic_folder
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError


def partition_stream(
    stream: EventStream,
    count: int,
    policy: str = "shared-nodes",
    shared: float = 0.0,
    decay: float | None = None,
    seed: int = 0,
    trained: int | None = None,
    folder: Path | None = None,
    batch: int = BATCH,
    neighbours: int = NEIGHBOURS,
) -> EventPartition:
    """Partition an event stream into `count` parts, one a rank (MemShare §3.2, §5.4): every event in one, every node in one, but for those
    that are shared.

    policy: a name of `PARTITIONERS`. shared: the share of the nodes that all parts have, those of highest degree among the first `trained`
    events (`most_active_nodes`). decay: δ of eq. 8, by the stream's unit of time; None: 1 / (last time - first time). The paper has 1 /
    (last time), with times as they come: of seconds since 1970 no event would fade. seed: of what is random. batch, neighbours: events a
    part in a batch of training, and neighbours that it reads of an event's end; only `restream` asks.

    folder: results are files there, whole or not at all, and mapped: beyond them memory is a block of events and what the partitioner
    carries, however long the stream. What a folder has already is read, and refused where it is of another stream or other settings. Raises
    UserError for what does not fit, MachineError where METIS fails.
    """
    cut = find_partitioner(policy)
    if count < 1:
        raise UserError(f"parts: expected at least 1, got {count}")
    if decay is not None and not (decay >= 0 and isfinite(decay)):
        raise UserError(f"decay: expected a number of at least 0, got {decay}")
    mask = most_active_nodes(stream, shared, trained)
    if count > (unshared := mask.size - int(mask.sum())):
        raise UserError(
            f"{count} parts of '{stream.name}': only {unshared} of its {mask.size} nodes are not shared; expected at most as many parts"
        )
    fading = default_decay(stream) if decay is None else decay
    request, description = (
        PartitionRequest(stream, count, mask, fading, seed, batch, neighbours),
        describe_partition(stream, policy, count, shared, fading, seed, trained) + describe_training(policy, batch, neighbours),
    )
    if folder is None:
        event = np.empty(len(stream), np.int32)
        return EventPartition(cut(request, partial(_fill, event, [0])), event, count, description)
    if not folder.exists():
        with atomic_folder(folder) as draft:
            with (draft / EVENT).open("wb") as file:
                header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int32)), "fortran_order": False, "shape": (len(stream),)}
                np.lib.format.write_array_header_1_0(file, header)
                node = cut(request, lambda part: part.tofile(file))
            EventPartition.record(draft, node, len(stream), count, description)
    return EventPartition.load(folder, description)


def default_decay(stream: EventStream) -> float:
    """Return the rate at which a partitioner lets past events fade unless another is given: 1 / (last time - first time) of the stream, 0
    where all times are one."""
    span = float(elapsed_time(stream, slice(-1, None))[0]) if len(stream) else 0.0
    return 1 / span if span > 0 else 0.0


def _fill(event: Int32, at: list[int], part: Int32) -> None:
    event[at[0] : at[0] + part.size] = part
    at[0] += part.size


def describe_partition(stream: EventStream, policy: str, count: int, shared: float, decay: float, seed: int, trained: int | None) -> str:
    """Describe how a stream is partitioned in a line of policy, settings and the stream's SHA-256, by which stored partitions are
    recognised: partitions of the same line are the same, but for METIS's, of which two calls may differ."""
    degrees = "all" if trained is None else f"the first {trained}"
    settings = f"{policy}, {count} parts, shared {shared!r}, decay {decay!r}, seed {seed}, degrees of {degrees} events"
    return f"{settings}, stream {hash_events(stream)}"


def describe_training(policy: str, batch: int, neighbours: int) -> str:
    """Describe for which training a stream is partitioned; '' where the partitioner does not ask."""
    asks = isinstance(find_partitioner(policy), RestreamingPartitioner)
    return f", for batches of {batch} and {neighbours} neighbours" if asks else ""


def hash_events(stream: EventStream) -> str:
    """Return the SHA-256 of an event stream (number of nodes, sources, destinations, times), read in blocks."""
    checksum = sha256(f"{stream.num_nodes} {len(stream)} {stream.t.dtype}\n".encode())
    for column in (stream.src, stream.dst, stream.t):
        for begin in range(0, len(stream), BLOCK):
            checksum.update(np.ascontiguousarray(column[begin : begin + BLOCK]).data)
            release(column)
    return checksum.hexdigest()
