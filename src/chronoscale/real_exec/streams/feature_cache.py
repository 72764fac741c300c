"""FeatureCache: rows of features that stay on a rank's device while it trains."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.caching.loading import CachedRows
from chronoscale.datasets.arrays import Float32, Int32
from chronoscale.real_exec.execution.transfers import to_device


class FeatureCache:
    """Features that stay on a rank's device while it trains on events, one row a cache slot.

    nodes float32 [Cn, F] and edges float32 [Ce, De]; None where a model reads no such features. cached: the nodes and edges in the slots at
    first.
    """

    def __init__(self, nodes: Float32 | None, edges: Float32 | None, cached: CachedRows, device: torch.device) -> None:
        self.nodes = _table(nodes, cached.nodes, device)
        self.edges = _table(edges, cached.edges, device)

    def keep(self, nodes: Tensor | None, edges: Tensor | None, slots: tuple[Tensor | None, Tensor | None]) -> None:
        """Keep features that were sent with a batch in the device's cache, in place of earlier ones.

        nodes, edges: sent rows, float32 [S, F] and [S, De]. slots: int64 [R] for each table; the first R rows go there.
        """
        for table, rows, slot in ((self.nodes, nodes, slots[0]), (self.edges, edges, slots[1])):
            if table is not None and rows is not None and slot is not None:
                table.index_copy_(0, slot, rows[: len(slot)])


def _table(features: Float32 | None, rows: Int32, device: torch.device) -> Tensor | None:
    if features is None:
        return None
    table = np.zeros((rows.size, features.shape[1]), np.float32)
    full = rows >= 0
    table[full] = features[rows[full]]
    return to_device(torch.from_numpy(table), device)
