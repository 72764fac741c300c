"""Policies: partitioners by name."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.batching.streams.partitioning.metis import by_metis
from chronoscale.batching.streams.partitioning.one_pass import Streamed
from chronoscale.batching.streams.partitioning.random_partitioner import at_random
from chronoscale.batching.streams.partitioning.request import Partitioner
from chronoscale.errors import unknown

PARTITIONERS: Mapping[str, Partitioner] = {
    "shared-nodes": Streamed("attention"),
    "metis": by_metis,
    "distgl": Streamed("average"),
    "random": at_random,
}


def partitioner(policy: str) -> Partitioner:
    """Raises UserError for a name that there is not, with the nearest one."""
    if policy not in PARTITIONERS:
        raise unknown("partitioner", policy, PARTITIONERS)
    return PARTITIONERS[policy]
