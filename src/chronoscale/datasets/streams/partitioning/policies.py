"""Policies: partitioners by name."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.datasets.streams.partitioning.asked import Partitioner
from chronoscale.datasets.streams.partitioning.at_random import at_random
from chronoscale.datasets.streams.partitioning.by_metis import by_metis
from chronoscale.datasets.streams.partitioning.streamed import Streamed
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
