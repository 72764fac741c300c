"""Held: the rows of node memory that a rank has: those of its part, and shared ones."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.datasets.arrays import Int32
from chronoscale.real_exec.streams.material import Material
from chronoscale.real_exec.streams.pending import Pending
from chronoscale.real_exec.streams.spread.packing import Column, packed, unpacked
from chronoscale.real_exec.streams.state import NodeState, opened


class Held:
    """state: tables of the rank's nodes alone; place int64 [N]: the row of each node there, -1 where it is another rank's. shared int32
    [S]: nodes that all ranks have, of which `common` int64 [N] says the number, -1 for others."""

    def __init__(self, material: Material, parts: EventPartition | None, rank: int) -> None:
        stream = material.data.whole.stream
        here = np.ones(stream.num_nodes, np.bool_) if parts is None else parts.here(rank)
        self.shared: Int32 = np.empty(0, np.int32) if parts is None else parts.shared
        self.place, self.common = np.full((2, stream.num_nodes), -1, np.int64)
        self.place[here] = np.arange(np.count_nonzero(here))
        self.common[self.shared] = np.arange(self.shared.size)
        self.state = NodeState(int(np.count_nonzero(here)), material.shape, float(stream.t[0]))
        self._features = material.node_features
        tables = self.state.tables().values()
        self.columns = [Column(table.dtype, tuple(table.shape[1:])) for table in tables]
        if self._features is not None:
            self.columns.append(Column(torch.float32, (self._features.shape[1],)))

    @property
    def row(self) -> int:
        """Bytes of a node's row that another rank asks for."""
        return sum(column.bytes for column in self.columns)

    def places(self, nodes: np.ndarray) -> Tensor:
        """Rows of nodes that the rank has, int64 [n]."""
        return torch.from_numpy(self.place[nodes])

    def read(self, nodes: np.ndarray) -> tuple[Pending, Tensor]:
        """As `NodeState.read`, of nodes that the rank has."""
        return self.state.read(self.places(nodes))

    def served(self, nodes: np.ndarray) -> Tensor:
        """Rows of nodes that the rank has as another asks for them: memory, mailbox, features; uint8 [n, `row`]."""
        at = self.places(nodes)
        found = [table.index_select(0, at) for table in self.state.tables().values()]
        if self._features is not None:
            found.append(torch.from_numpy(np.ascontiguousarray(self._features[nodes])))
        return packed(found)

    def opened(self, rows: Tensor) -> tuple[Pending, Tensor, Tensor | None]:
        """What `served` gave: as `NodeState.read`, and features [n, F]."""
        found = unpacked(rows, self.columns)
        tables = dict(zip(self.state.tables(), found, strict=False))
        return *opened(tables), None if self._features is None else found[-1]
