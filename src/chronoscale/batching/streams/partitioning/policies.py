"""Partitioners by name."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.batching.streams.partitioning.node_partitioners import partition_at_random, partition_by_metis
from chronoscale.batching.streams.partitioning.partitioner import Partitioner
from chronoscale.batching.streams.partitioning.restreaming_partitioner import RestreamingPartitioner
from chronoscale.batching.streams.partitioning.streaming_partitioner import StreamingPartitioner
from chronoscale.errors import unknown

PARTITIONERS: Mapping[str, Partitioner] = {
    "shared-nodes": StreamingPartitioner("attention"),
    "metis": partition_by_metis,
    "distgl": StreamingPartitioner("average"),
    "random": partition_at_random,
    "restream": RestreamingPartitioner(),
}


def find_partitioner(policy: str) -> Partitioner:
    """Return the partitioner of event streams of a name, such as "metis" (a key of `PARTITIONERS`). Raises UserError for an unknown one,
    with the nearest."""
    if policy not in PARTITIONERS:
        raise unknown("partitioner", policy, PARTITIONERS)
    return PARTITIONERS[policy]
