"""BatchStatistics: what planning needs of a stream of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chronoscale.datasets.arrays import Int64, check_columns


@dataclass(frozen=True, slots=True, eq=False)
class BatchStatistics:
    """int64 [B], one entry a batch of events, from one pass of the sampler."""

    family: ClassVar[str] = "streams"
    events: Int64
    sampled: Int64  # neighbour slots filled, all layers
    unique_nodes: Int64
    unique_edges: Int64
    updated_nodes: Int64  # rows of memory written
    remote_nodes: Int64  # rows that another rank owns

    def __post_init__(self) -> None:
        check_columns(self, self.events.shape)

    def __len__(self) -> int:
        return len(self.events)
