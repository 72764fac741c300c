"""MemoryPart: the rows of node memory that a rank has: those of its part, and those of shared nodes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.datasets.arrays import Int32
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.spread.packing import Column, pack, unpack
from chronoscale.real_exec.streams.state import NodeState, memory_rows_of


class MemoryPart:
    """The part of node memory and mailboxes that one rank has: of its own nodes, and of those that all ranks share.

    state: tables of only the rank's nodes; place int64 [N]: the row of each node there, -1 where another rank has it. shared int32 [S]:
    nodes that all ranks have; common int64 [N]: the number of each among these, -1 for others.
    """

    def __init__(self, material: StreamMaterial, parts: EventPartition | None, rank: int) -> None:
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
        """Return the bytes that a node's memory, mailbox and features take when they are sent to another rank."""
        return sum(column.bytes for column in self.columns)

    def places(self, nodes: np.ndarray) -> Tensor:
        """Return the rows of nodes in this rank's tables of node memory, int64 [n]; -1 for a node that it does not have."""
        return torch.from_numpy(self.place[nodes])

    def read(self, nodes: np.ndarray) -> tuple[MemoryRows, Tensor]:
        """Return memory and mailbox of nodes that this rank has, and the time of their memory, float64 [n] (`NodeState.read`)."""
        return self.state.read(self.places(nodes))

    def pack_rows(self, nodes: np.ndarray) -> Tensor:
        """Return memory, mailbox and features of nodes as bytes for another rank that asks for them, uint8 [n, `row`]."""
        at = self.places(nodes)
        columns = [table.index_select(0, at) for table in self.state.tables().values()]
        if self._features is not None:
            columns.append(torch.from_numpy(np.ascontiguousarray(self._features[nodes])))
        return pack(columns)

    def unpack_rows(self, rows: Tensor) -> tuple[MemoryRows, Tensor, Tensor | None]:
        """Unpack rows that another rank packed (`pack_rows`): memory and mailbox, their last update, and features [n, F] or None."""
        columns = unpack(rows, self.columns)
        tables = dict(zip(self.state.tables(), columns, strict=False))
        return *memory_rows_of(tables), None if self._features is None else columns[-1]
