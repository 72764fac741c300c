"""SpreadBatch: a batch some of whose rows come from other ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.caching.resident_rows import BatchLoads, TableLoad
from chronoscale.batching.streams.ranks.remote_reads import RowsByOwner
from chronoscale.batching.streams.ranks.remote_row_cache import CacheLookup
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood
from chronoscale.datasets.arrays import Float32, Int32, Int64, Numbers
from chronoscale.real_exec.execution.transfers import record_use, to_device
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.tree import Hop, Tree


@dataclass(slots=True, eq=False)
class SpreadBatch(Batch):
    """A rank's batch of events some of whose nodes and edges lie on other ranks: own rows stand first, then those of other ranks.

    weight float32 [B, k] or None: weight of each negative in the loss. remote: where its nodes and its edges are. lookups: of those that
    other ranks have in this rank's cache, None without one. received: rows of other
    ranks: memory and mailbox, and their last update. expected: rows of shared nodes among the batch's, int64 [n], and their expected memory
    (MemShare eq. 20), float32 [n, H]. ends: rows of its events' sources and destinations among its nodes, int64 [2 B].
    """

    weight: Tensor | None = None
    remote: tuple[RowsByOwner, RowsByOwner] | None = None
    lookups: tuple[CacheLookup, CacheLookup] | None = None
    received: tuple[MemoryRows, Tensor] | None = None
    expected: tuple[Tensor, Tensor] | None = None
    ends: Tensor | None = None

    @classmethod
    def around(
        cls,
        source: IndexedStream,
        events: Int64,
        others: tuple[Int32, Float32 | None],
        times: Numbers,
        neighbourhood: Neighbourhood,
        away: tuple[RowsByOwner, RowsByOwner],
    ) -> SpreadBatch:
        """Make a rank's batch of what was sampled around its events, some of it on other ranks; nothing is gathered yet.

        others: negatives, and their weights or None. away: on which ranks the nodes and the edges are.
        """
        nodes, edges = away
        load = TableLoad(nodes.ids[: nodes.own])
        weight = None if others[1] is None else torch.from_numpy(others[1])
        loads = BatchLoads(load, TableLoad(edges.ids[: edges.own]), load)
        return cls(
            source, events, others[0], _reorder(neighbourhood, *away), loads, torch.from_numpy(times).double(), weight=weight, remote=away
        )

    def logit_weights(self, logits: Tensor) -> Tensor | None:
        """Return the weight of each of the batch's logits [B, 1 + k] in the loss, None: 1 each; destinations have weight 1, negatives their
        own.
        """
        record_use(self.weight)
        return None if self.weight is None else torch.cat([torch.ones_like(self.weight[:, :1]), self.weight], 1)

    def send(self, device: torch.device) -> None:
        """Copy the batch's indices, and the features that this rank has of it, to the device."""
        self.features, self.edges = (None if rows is None else to_device(rows, device) for rows in (self.features, self.edges))
        self.times = to_device(self.times, device)
        self.weight = None if self.weight is None else to_device(self.weight, device)
        for tree in self.neighbourhood.trees:
            hops, at = [], []
            for hop in tree.hops:
                slot, there, edge, elapsed = (
                    to_device(torch.from_numpy(part), device) for part in (hop.slot, hop.there, hop.edge, hop.elapsed)
                )
                weight = None if hop.weight is None else to_device(torch.from_numpy(hop.weight), device)
                hops.append(Hop(slot, there, elapsed, None, int(np.count_nonzero(hop.there)), weight))
                at.append(edge)
            self.trees.append(Tree([to_device(torch.from_numpy(level), device) for level in tree.levels], hops))
            self.edge_at.append(at)
        self.ends = self.trees[0].levels[0][: 2 * len(self.events)]

    def receive(self, memory: tuple[MemoryRows, Tensor, Tensor | None], edges: Tensor | None) -> None:
        """Store what the batch reads of other ranks, on the device.

        memory: memory and mailbox of nodes, their last update, and features of nodes or None. edges: features of edges or None.
        """
        record_use(self.features, self.edges)
        pending, last_update, features = memory
        self.received = pending, last_update
        if features is not None and self.features is not None:
            self.features = torch.cat([self.features, features])
        if edges is not None and self.edges is not None:
            self.edges = torch.cat([self.edges, edges])

    def whole(self) -> None:
        """Join the rank's own rows and those received from others, in the order of the batch's nodes and neighbour slots."""
        assert self.memory_rows is not None and self.last_update is not None
        record_use(*self.memory_rows, self.last_update, self.edges, *(at for tree_at in self.edge_at for at in tree_at))
        if self.received is not None:
            pending, last_update = self.received
            record_use(*pending, last_update)
            self.memory_rows = MemoryRows(*(torch.cat(parts) for parts in zip(self.memory_rows, pending, strict=True)))
            self.last_update, self.received = torch.cat([self.last_update, last_update]), None
        if self.edges is not None:
            for tree, at in zip(self.trees, self.edge_at, strict=True):
                for number, (hop, index) in enumerate(zip(tree.hops, at, strict=True)):
                    tree.hops[number] = hop._replace(edge=_slots(self.edges, index))
            self.edges = None


def _slots(edges: Tensor, index: Tensor) -> Tensor:
    """Return edge features at these places, [T, K, D]; zeros where no edge was sampled at all."""
    return edges[index] if len(edges) else edges.new_zeros(*index.shape, edges.shape[1])


def _reorder(neighbourhood: Neighbourhood, nodes: RowsByOwner, edges: RowsByOwner) -> Neighbourhood:
    """Return the neighbourhood with its rows in the order of where they are."""
    node_at, edge_at = (_places(remote.order) for remote in (nodes, edges))
    trees = []
    for tree in neighbourhood.trees:
        hops = [hop if not edge_at.size else hop._replace(edge=edge_at[hop.edge]) for hop in tree.hops]
        trees.append(tree._replace(levels=[node_at[level] for level in tree.levels], hops=hops))
    return Neighbourhood(nodes.ids, edges.ids, trees)


def _places(order: Int64) -> Int64:
    """Return the inverse of a permutation."""
    places = np.empty(order.size, np.int64)
    places[order] = np.arange(order.size)
    return places
