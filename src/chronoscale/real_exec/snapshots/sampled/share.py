"""Share: what a rank has on the host for an epoch: input features of the nodes that it was dealt, and its samples of the snapshots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.snapshots.sampling import NeighbourSampling, random_layout, sampled_subgraph
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.real_exec.execution.exchange import Exchange
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.snapshots.material import Full, Material
from chronoscale.real_exec.snapshots.region import Route


@dataclass(frozen=True, slots=True)
class Sample:
    """A rank's rows of a sampled snapshot on the host: adjacency [rows, rows + remote] with the scale of own rows, and how remote rows come
    and go."""

    full: Full
    route: Route


class Share:
    """Of one rank. `snapshots`: how many are read. `begin` is called before every epoch; features lie with whom the deal before has given
    their nodes, until `deal` moves them."""

    def __init__(self, material: Material, snapshots: int, rank: int, ranks: int, device: torch.device) -> None:
        self._material, self._snapshots, self._rank, self._ranks, self._device = material, snapshots, rank, ranks, device
        self._held = -1  # the deal that features lie by
        self._features = torch.empty(0)

    def begin(self, sampling: NeighbourSampling) -> None:
        """An epoch. Features are read anew where the epoch before was another."""
        nodes, self._sampling = self._material.num_nodes, sampling
        self._before, self.layout = (random_layout(nodes, self._ranks, sampling.seed, sampling.epoch + i) for i in (0, 1))
        self.own = torch.from_numpy(self.layout.nodes(self._rank))
        if self._held != sampling.epoch:
            self._features = self._pinned(self._read(torch.from_numpy(self._before.nodes(self._rank))))
        self._held = sampling.epoch + 1
        self._samples: dict[int, Sample] = {}

    def deal(self, exchange: Exchange) -> int:
        """ALLTOALL: features go to the nodes' new ranks. Bytes that came."""
        before, now, rank = self._before, self.layout, self._rank
        old, new = before.nodes(rank), now.nodes(rank)
        go, come = old[now.rank[old] != rank], new[before.rank[new] != rank]
        go, come = go[np.argsort(now.rank[go], kind="stable")], come[np.argsort(before.rank[come], kind="stable")]
        leaving, coming = (np.bincount(ranks, minlength=self._ranks).tolist() for ranks in (now.rank[go], before.rank[come]))
        place = np.full(self._material.num_nodes, -1)
        place[old] = np.arange(len(old))
        message = sent(self._features[torch.from_numpy(place[go])], self._device)
        arrived = message.new_empty(len(come), message.shape[1])
        exchange.all_to_all(arrived, message, coming, leaving)
        kept = new[before.rank[new] == rank]
        place[new] = np.arange(len(new))
        moved = self._features.new_empty(len(new), message.shape[1])
        old_place = np.searchsorted(old, kept)  # ids of a rank ascend
        moved[torch.from_numpy(place[kept])] = self._features[torch.from_numpy(old_place)]
        moved[torch.from_numpy(place[come])] = arrived.to(moved.device)
        self._features = self._pinned(moved)
        return arrived.nbytes

    def sample(self, snapshot: int) -> None:
        """SAMPLE: draw a snapshot's neighbours and number them for this rank."""
        graph, layout, rank = self._material.snapshots[snapshot], self.layout, self._rank
        kept = self._sampling.edge_mask(graph, snapshot)
        halo = layout.halo(sampled_subgraph(graph, kept))
        block = layout.block(self._sampling.csr(graph, self._material.csr(snapshot), kept), halo, rank)
        parts = [torch.from_numpy(np.ascontiguousarray(part)) for part in (block.indptr, block.indices, block.values, block.scale)]
        indptr, indices, values, scale = (part.pin_memory() if self._material.pins else part for part in parts)
        mine, asked = halo.reader == rank, halo.owner == rank
        leaving, coming = (np.bincount(side, minlength=self._ranks).tolist() for side in (halo.reader[asked], halo.owner[mine]))
        send = halo.place[asked] - layout.offset[rank]
        route = Route.of(send, leaving, coming, block.rows, self._device)
        self._samples[snapshot] = Sample(Full(CSR(indptr, indices, values, block.rows + len(block.remote)).check(), scale), route)

    def take(self, snapshot: int) -> tuple[Sample, Tensor]:
        """A sample, which is asked for once, and the input features of own rows, float32 [rows, F]."""
        width = self._features.shape[1] // self._each
        at = snapshot * width if self._each > 1 else 0
        return self._samples.pop(snapshot), self._features[:, at : at + width]

    def target(self, snapshot: int) -> Tensor:
        """What own rows predict."""
        return sent(self._material.target(snapshot)[self.own], self._device)

    @property
    def _each(self) -> int:
        return self._snapshots if self._material.task.varies else 1

    def _pinned(self, features: Tensor) -> Tensor:
        """Once an epoch, where each snapshot is sent whole: `sent` would copy it into pinned memory every time."""
        return features.pin_memory() if self._material.pins else features

    def _read(self, nodes: Tensor) -> Tensor:
        """Features of some nodes as the data set has them, of all snapshots side by side."""
        return torch.cat([self._material.features(t)[nodes] for t in range(self._each)], 1)
