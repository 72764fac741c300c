"""Stock: a rank's blocks of the snapshots on the host, numbered as an epoch has them, and where their remote rows come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.snapshots.layout import Layout, LayoutHalo, RankBlock
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.datasets.arrays import Int64
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.snapshots.material import Full, Material
from chronoscale.real_exec.snapshots.region import Route


@dataclass(frozen=True, slots=True)
class Rows:
    """A snapshot, or what is left of it, on a device: adjacency [rows, rows + halo] with the scale of own rows, and input features of own
    and remote rows, float32 [rows + halo, F]."""

    full: Full
    features: Tensor

    @property
    def halo(self) -> int:
        return self.full.graph.num_cols - self.full.graph.num_rows

    def to(self, device: torch.device, shares: bool) -> Rows:
        """A copy, asynchronous where the host memory is pinned."""
        features = self.features.clone() if device.type == "cpu" else self.features.to(device, non_blocking=True)
        return Rows(self.full.to(device, shares), features)


class Stock:
    """Of one rank. What an epoch asks for is made when it is asked for, and kept for the epoch; rows until they are sent."""

    def __init__(self, material: Material, rank: int, device: torch.device) -> None:
        self._material, self._rank, self._device = material, rank, device
        self._pins = material.pins

    def begin(self, layout: Layout) -> None:
        """An epoch's numbers."""
        self.layout = layout
        self._rows: dict[tuple[int, int], Rows] = {}
        self._halos: dict[int, LayoutHalo] = {}
        self._counts: dict[int, tuple[Int64, Int64, Int64]] = {}
        self._routes: dict[tuple[int, int], Route] = {}

    def number(self, snapshot: int, level: int) -> None:
        """Number a snapshot anew: REMAP, whenever it comes."""
        block = self.layout.block(self._material.csr(snapshot), self._halo(snapshot), self._rank)
        rows, _, halo = self.size(snapshot, level)
        self._rows[snapshot, level] = self._on_host(block.shrunk(rows, halo), snapshot)

    def rows(self, snapshot: int, level: int) -> Rows:
        """On the host."""
        if (snapshot, level) not in self._rows:
            self.number(snapshot, level)
        return self._rows[snapshot, level]

    def drop(self, snapshot: int, level: int) -> None:
        """It has been sent, and nothing asks for it again."""
        del self._rows[snapshot, level]

    def size(self, snapshot: int, level: int) -> tuple[int, int, int]:
        """Own rows, edges that end there, remote rows."""
        if snapshot not in self._counts:
            self._counts[snapshot] = self.layout.counts(self._material.snapshots[snapshot], self._halo(snapshot))
        edges, halo, _ = (int(column[level, self._rank]) for column in self._counts[snapshot])
        return int(self.layout.rows[level, self._rank]), edges, halo

    def route(self, snapshot: int, level: int) -> Route:
        """How remote rows of an upper layer come and their gradients go."""
        if (snapshot, level) not in self._routes:
            self._routes[snapshot, level] = self._route(snapshot, level)
        return self._routes[snapshot, level]

    def target(self, snapshot: int, level: int) -> Tensor:
        """What own rows that are kept at a level predict."""
        own = self.layout.nodes(self._rank)
        kept = torch.from_numpy(own[self.layout.depth[own] >= level])
        return sent(self._material.target(snapshot)[kept], self._device)

    def kept(self, snapshot: int, level: int) -> tuple[Tensor, Tensor]:
        """Which own and which remote rows of a whole snapshot are kept at a level, bool [rows] and [halo], on the host."""
        halo = self._halo(snapshot)
        own = self.layout.depth[self.layout.nodes(self._rank)] >= level
        return torch.from_numpy(own), torch.from_numpy(halo.depth[halo.reader == self._rank] >= level)

    def _halo(self, snapshot: int) -> LayoutHalo:
        if snapshot not in self._halos:
            self._halos[snapshot] = self.layout.halo(self._material.snapshots[snapshot])
        return self._halos[snapshot]

    def _stands(self, level: int) -> Int64:
        """Where each own row stands among those that are kept at a level."""
        return np.cumsum(self.layout.depth[self.layout.nodes(self._rank)] >= level) - 1

    def _on_host(self, block: RankBlock, snapshot: int) -> Rows:
        read = np.concatenate([self.layout.nodes(self._rank)[: block.rows], block.remote])
        features = self._material.features(snapshot)[torch.from_numpy(read)]
        parts = [torch.from_numpy(np.ascontiguousarray(part)) for part in (block.indptr, block.indices, block.values, block.scale)]
        indptr, indices, values, scale = (part.pin_memory() if self._pins else part for part in parts)
        graph = CSR(indptr, indices, values, len(read)).check()
        return Rows(Full(graph, scale), features.pin_memory() if self._pins else features)

    def _route(self, snapshot: int, level: int) -> Route:
        layout, rank = self.layout, self._rank
        halo = self._halo(snapshot).at(level)
        mine, asked = halo.reader == rank, halo.owner == rank
        by = np.lexsort((np.arange(len(halo.reader)), halo.reader))  # readers in turn, each in the order that it has its rows
        send = self._stands(level)[halo.place[by][asked[by]] - layout.offset[rank]]
        sent, come = (np.bincount(side, minlength=layout.ranks).tolist() for side in (halo.reader[asked], halo.owner[mine]))
        arrival = np.argsort(halo.owner[mine], kind="stable")
        own = int(layout.rows[level, rank])
        return Route.of(send, sent, come, own, self._device, arrival)
