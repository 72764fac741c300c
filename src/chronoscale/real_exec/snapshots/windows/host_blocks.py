"""HostBlocks: a rank's blocks of the snapshots on the host, in an epoch's numbering, and where their remote rows come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.snapshots.layout import Layout, LayoutHalo, RankBlock
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.datasets.arrays import Int64
from chronoscale.real_exec.execution.transfers import to_device
from chronoscale.real_exec.snapshots.material import Full, SnapshotMaterial
from chronoscale.real_exec.snapshots.region import Route


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """One rank's rows (nodes) of a snapshot, or what sliding windows leave of them, on a device.

    full: adjacency [rows, rows + halo] with the scale of own rows; features: of own and remote rows, float32 [rows + halo, F].
    """

    full: Full
    features: Tensor

    @property
    def halo(self) -> int:
        """Return how many rows of other ranks (remote rows) this rank reads of the snapshot."""
        return self.full.graph.num_cols - self.full.graph.num_rows

    def to(self, device: torch.device, shares: bool) -> SnapshotRows:
        """Copy one rank's rows of a snapshot to a device, asynchronously where the host memory is pinned. shares: as `Full.to`."""
        features = self.features.clone() if device.type == "cpu" else self.features.to(device, non_blocking=True)
        return SnapshotRows(self.full.to(device, shares), features)


class HostBlocks:
    """One rank's rows of the snapshots in host memory, in an epoch's order of nodes, for FlareDTDG's sliding windows.

    Blocks are built on first use and stay until the epoch's end; rows stay until they are sent. A level says how much an aged snapshot
    retains, 0 all.
    """

    def __init__(self, material: SnapshotMaterial, rank: int, device: torch.device) -> None:
        self._material = material
        self._rank = rank
        self._device = device
        self._pins = material.pins

    def begin(self, layout: Layout, epoch: int) -> None:
        """Begin an epoch, by its number, on this rank with its order of nodes."""
        self.layout, self._epoch = layout, epoch
        self._rows: dict[tuple[int, int], SnapshotRows] = {}
        self._halos: dict[int, LayoutHalo] = {}
        self._counts: dict[int, tuple[Int64, Int64, Int64]] = {}
        self._routes: dict[tuple[int, int], Route] = {}

    def number(self, snapshot: int, level: int) -> None:
        """Number this rank's rows of a snapshot by the epoch's order of nodes (REMAP). level: of retention, 0 keeps all."""
        block = self.layout.block(self._material.csr(snapshot), self._halo(snapshot), self._rank)
        rows, _, halo = self.size(snapshot, level)
        self._rows[snapshot, level] = self._on_host(block.shrunk(rows, halo), snapshot)

    def rows(self, snapshot: int, level: int) -> SnapshotRows:
        """Return this rank's rows of a snapshot at a retention level (0: all), in host memory."""
        if (snapshot, level) not in self._rows:
            self.number(snapshot, level)
        return self._rows[snapshot, level]

    def drop(self, snapshot: int, level: int) -> None:
        """Release this rank's rows of a snapshot in host memory, which have been sent, and which nothing asks for again."""
        del self._rows[snapshot, level]

    def size(self, snapshot: int, level: int) -> tuple[int, int, int]:
        """Return how much a retention level (0: all) leaves of a snapshot on this rank: own rows, edges that end there, and remote rows."""
        if snapshot not in self._counts:
            self._counts[snapshot] = self.layout.counts(self._material.snapshots[snapshot], self._halo(snapshot))
        edges, halo, _ = (int(column[level, self._rank]) for column in self._counts[snapshot])
        return int(self.layout.rows[level, self._rank]), edges, halo

    def route(self, snapshot: int, level: int) -> Route:
        """Return which rows of a snapshot at a retention level this rank exchanges with which others, for layers above the first."""
        if (snapshot, level) not in self._routes:
            self._routes[snapshot, level] = self._route(snapshot, level)
        return self._routes[snapshot, level]

    def target(self, snapshot: int, level: int) -> Tensor:
        """Return the true values to predict of this rank's nodes that a retention level keeps, a row each, on its device; or the pairs of
        nodes, numbered as they stand in all ranks' rows: edges that are kept with both ends and with their negative's.
        """
        if self._material.task.pairs:
            return to_device(self._pairs(snapshot, level), self._device)
        own = self.layout.nodes(self._rank)
        nodes = torch.from_numpy(own[self.layout.depth[own] >= level])
        return to_device(self._material.target(snapshot)[nodes], self._device)

    def _pairs(self, snapshot: int, level: int) -> Tensor:
        kept = self.layout.depth >= level
        stands = (np.cumsum(kept[self.layout.order]) - 1)[self.layout.place].astype(np.int32)
        pairs = self._material.target(snapshot, self._epoch).numpy()
        whole = kept[pairs].all(0).reshape(2, -1).all(0)  # edges, then their negatives
        return torch.from_numpy(stands[pairs[:, np.tile(whole, 2)]])

    def kept_masks(self, snapshot: int, level: int) -> tuple[Tensor, Tensor]:
        """Return which of this rank's own and remote rows of a whole snapshot a retention level keeps, bool [rows] and [halo], in host
        memory.
        """
        halo = self._halo(snapshot)
        own = self.layout.depth[self.layout.nodes(self._rank)] >= level
        return torch.from_numpy(own), torch.from_numpy(halo.depth[halo.reader == self._rank] >= level)

    def _halo(self, snapshot: int) -> LayoutHalo:
        if snapshot not in self._halos:
            self._halos[snapshot] = self.layout.halo(self._material.snapshots[snapshot])
        return self._halos[snapshot]

    def _stands(self, level: int) -> Int64:
        """Return the position of each own row among those that a level retains."""
        return np.cumsum(self.layout.depth[self.layout.nodes(self._rank)] >= level) - 1

    def _on_host(self, block: RankBlock, snapshot: int) -> SnapshotRows:
        read = np.concatenate([self.layout.nodes(self._rank)[: block.rows], block.remote])
        features = self._material.features(snapshot)[torch.from_numpy(read)]
        parts = [torch.from_numpy(np.ascontiguousarray(part)) for part in (block.indptr, block.indices, block.values, block.scale)]
        indptr, indices, values, scale = (part.pin_memory() if self._pins else part for part in parts)
        graph = CSR(indptr, indices, values, len(read)).check()
        return SnapshotRows(Full(graph, scale), features.pin_memory() if self._pins else features)

    def _route(self, snapshot: int, level: int) -> Route:
        layout, rank = self.layout, self._rank
        halo = self._halo(snapshot).at(level)
        mine, requested = halo.reader == rank, halo.owner == rank
        by = np.lexsort((np.arange(len(halo.reader)), halo.reader))  # readers in turn, each in the order that it has its rows
        send = self._stands(level)[halo.place[by][requested[by]] - layout.offset[rank]]
        outgoing, incoming = (np.bincount(side, minlength=layout.ranks).tolist() for side in (halo.reader[requested], halo.owner[mine]))
        arrival = np.argsort(halo.owner[mine], kind="stable")
        own = int(layout.rows[level, rank])
        return Route.of(send, outgoing, incoming, own, self._device, arrival)
