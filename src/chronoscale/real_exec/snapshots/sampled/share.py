"""EpochShare: what a rank has on the host in an epoch: input features of its nodes, and its samples of the snapshots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.snapshots.sampling import NeighbourSampling, random_layout, sampled_subgraph
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.real_exec.communication.exchange import Exchange
from chronoscale.real_exec.execution.transfers import to_device
from chronoscale.real_exec.snapshots.material import Full, SnapshotMaterial
from chronoscale.real_exec.snapshots.region import Route


@dataclass(frozen=True, slots=True)
class Sample:
    """One rank's rows of a snapshot with sampled neighbours, in host memory: adjacency [rows, rows + remote] with the scale of own rows,
    and their route.
    """

    full: Full
    route: Route


class EpochShare:
    """Share of the nodes that one rank has in an epoch, where every epoch deals nodes to ranks anew and samples their neighbours.

    snapshots: how many are read. `begin` is called before every epoch; features lie with the rank that had their nodes in the epoch before,
    until `deal` moves them.
    """

    def __init__(self, material: SnapshotMaterial, snapshots: int, rank: int, ranks: int, device: torch.device) -> None:
        self._material = material
        self._snapshots = snapshots
        self._rank = rank
        self._ranks = ranks
        self._device = device
        self._held = -1  # the deal that features lie by
        self._features = torch.empty(0)

    def begin(self, sampling: NeighbourSampling) -> None:
        """Begin an epoch on this rank: draw which nodes each rank has.

        Features are read again where this epoch does not follow the last one.
        """
        nodes, self._sampling = self._material.num_nodes, sampling
        self._before, self.layout = (random_layout(nodes, self._ranks, sampling.seed, sampling.epoch + i) for i in (0, 1))
        self.own = torch.from_numpy(self.layout.nodes(self._rank))
        if self._held != sampling.epoch:
            self._features = self._pin(self._read(torch.from_numpy(self._before.nodes(self._rank))))
        self._held = sampling.epoch + 1
        self._samples: dict[int, Sample] = {}

    def deal(self, exchange: Exchange) -> int:
        """Send input features to their nodes' ranks of this epoch (ALLTOALL); every rank calls it. Returns bytes that were received."""
        before = self._before
        now = self.layout
        rank = self._rank
        old, new = before.nodes(rank), now.nodes(rank)
        leaving_ids, entering = old[now.rank[old] != rank], new[before.rank[new] != rank]
        leaving_ids, entering = (
            leaving_ids[np.argsort(now.rank[leaving_ids], kind="stable")],
            entering[np.argsort(before.rank[entering], kind="stable")],
        )
        leaving, coming = (np.bincount(ranks, minlength=self._ranks).tolist() for ranks in (now.rank[leaving_ids], before.rank[entering]))
        place = np.full(self._material.num_nodes, -1)
        place[old] = np.arange(len(old))
        message = to_device(self._features[torch.from_numpy(place[leaving_ids])], self._device)
        arrived = message.new_empty(len(entering), message.shape[1])
        exchange.all_to_all(arrived, message, coming, leaving)
        staying = new[before.rank[new] == rank]
        place[new] = np.arange(len(new))
        moved = self._features.new_empty(len(new), message.shape[1])
        old_place = np.searchsorted(old, staying)  # ids of a rank ascend
        moved[torch.from_numpy(place[staying])] = self._features[torch.from_numpy(old_place)]
        moved[torch.from_numpy(place[entering])] = arrived.to(moved.device)
        self._features = self._pin(moved)
        return arrived.nbytes

    def sample(self, snapshot: int) -> None:
        """Draw the neighbours of a snapshot's nodes, and number them for this rank (SAMPLE)."""
        graph = self._material.snapshots[snapshot]
        layout = self.layout
        rank = self._rank
        edges = self._sampling.edge_mask(graph, snapshot)
        halo = layout.halo(sampled_subgraph(graph, edges))
        block = layout.block(self._sampling.csr(graph, self._material.csr(snapshot), edges), halo, rank)
        parts = [torch.from_numpy(np.ascontiguousarray(part)) for part in (block.indptr, block.indices, block.values, block.scale)]
        indptr, indices, values, scale = (part.pin_memory() if self._material.pins else part for part in parts)
        mine, requested = halo.reader == rank, halo.owner == rank
        leaving, coming = (np.bincount(side, minlength=self._ranks).tolist() for side in (halo.reader[requested], halo.owner[mine]))
        send = halo.place[requested] - layout.offset[rank]
        route = Route.of(send, leaving, coming, block.rows, self._device)
        self._samples[snapshot] = Sample(Full(CSR(indptr, indices, values, block.rows + len(block.remote)).check(), scale), route)

    def take(self, snapshot: int) -> tuple[Sample, Tensor]:
        """Return a snapshot's sample on this rank, once, and the input features of its nodes, float32 [rows, F], in host memory."""
        width = self._features.shape[1] // self._each
        at = snapshot * width if self._each > 1 else 0
        return self._samples.pop(snapshot), self._features[:, at : at + width]

    def target(self, snapshot: int) -> Tensor:
        """Return the true values to predict of this rank's nodes in a snapshot, a row each, on its device."""
        return to_device(self._material.target(snapshot)[self.own], self._device)

    @property
    def _each(self) -> int:
        return self._snapshots if self._material.task.varies else 1

    def _pin(self, features: Tensor) -> Tensor:
        """Pin features once an epoch; else `to_device` would copy them into pinned memory for every snapshot."""
        return features.pin_memory() if self._material.pins else features

    def _read(self, nodes: Tensor) -> Tensor:
        """Return features of some nodes as the dataset has them, of all snapshots side by side."""
        return torch.cat([self._material.features(t)[nodes] for t in range(self._each)], 1)
