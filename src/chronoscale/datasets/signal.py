"""Spatio-temporal data: a signal on the nodes of a static graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Bool, Float32, Float64, Int32, Int64, require, require_ids
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """T readings of C channels at N nodes of a static graph.

    values float32 or float64 [T, N, C]; edge_index int32 [2, E] (sources, destinations); edge_weight float32 [E] or None;
    missing bool [T, N, C] or None, True where there is no reading (the value there means nothing and may be NaN);
    node_ids int64 [N] or None (ids in the source). Arrays may be memory-mapped. Raises UserError for ids out of range
    and for values that are not finite where a reading is claimed.
    """

    values: Float32 | Float64
    edge_index: Int32
    edge_weight: Float32 | None = None
    missing: Bool | None = None
    node_ids: Int64 | None = None
    name: str = ""

    def __post_init__(self) -> None:
        require(self.values, "Signal.values", "float32 float64", (None, None, None))
        require(self.edge_index, "Signal.edge_index", "int32", (2, None))
        require(self.edge_weight, "Signal.edge_weight", "float32", (self.edge_index.shape[1],))
        require(self.missing, "Signal.missing", "bool", self.values.shape)
        require(self.node_ids, "Signal.node_ids", "int64", (self.num_nodes,))
        require_ids(self.edge_index.ravel(), "Signal.edge_index", self.num_nodes)
        wrong = ~np.isfinite(self.values)
        if self.missing is not None:
            wrong &= ~self.missing
        if wrong.any():
            t, node, channel = (int(i) for i in np.argwhere(wrong)[0])
            raise UserError(f"Signal.values[{t}, {node}, {channel}]: not finite and not marked as missing")
        if self.edge_weight is not None and not np.isfinite(self.edge_weight).all():
            raise UserError("Signal.edge_weight: not finite")

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def num_nodes(self) -> int:
        return int(self.values.shape[1])

    @property
    def num_channels(self) -> int:
        return int(self.values.shape[2])
