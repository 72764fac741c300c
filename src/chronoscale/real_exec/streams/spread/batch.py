"""SpreadBatch: a batch some of whose rows come from other ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.caching.resident_rows import BatchLoads, TableLoad
from chronoscale.batching.streams.ranks.remote_reads import RowsByOwner
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood
from chronoscale.datasets.arrays import Float32, Int32, Int64, Numbers
from chronoscale.real_exec.execution.lanes import uses
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.pending import Pending
from chronoscale.real_exec.streams.tree import Hop, Tree


@dataclass(slots=True, eq=False)
class SpreadBatch(Batch):
    """Its nodes and edges stand by where they are: own ones first, then those of other ranks. weight float32 [B, k] or None: what each
    negative counts for. away: of nodes and of edges. come: rows of other ranks: memory and mailbox as they are read, and when they were
    heard of. expected: rows of shared nodes among the batch's, int64 [n], and their memory of eq. 20, float32
    [n, H]. ends: rows of the sources and destinations of its events among its nodes, int64 [2 B]."""

    weight: Tensor | None = None
    away: tuple[RowsByOwner, RowsByOwner] | None = None
    come: tuple[Pending, Tensor] | None = None
    expected: tuple[Tensor, Tensor] | None = None
    ends: Tensor | None = None

    @classmethod
    def around(
        cls,
        source: IndexedStream,
        events: Int64,
        others: tuple[Int32, Float32 | None],
        times: Numbers,
        found: Neighbourhood,
        away: tuple[RowsByOwner, RowsByOwner],
    ) -> SpreadBatch:
        """Of what was sampled around events; nothing is gathered yet."""
        nodes, edges = away
        load = TableLoad(nodes.ids[: nodes.own])
        weight = None if others[1] is None else torch.from_numpy(others[1])
        loads = BatchLoads(load, TableLoad(edges.ids[: edges.own]), load)
        return cls(source, events, others[0], _ordered(found, *away), loads, torch.from_numpy(times).double(), weight=weight, away=away)

    def weighed(self, logits: Tensor) -> Tensor | None:
        """As Batch says: destinations count once."""
        uses(self.weight)
        return None if self.weight is None else torch.cat([torch.ones_like(self.weight[:, :1]), self.weight], 1)

    def send(self, device: torch.device) -> None:
        """Indices and the rank's own rows of features to the device."""
        self.features, self.edges = (None if rows is None else sent(rows, device) for rows in (self.features, self.edges))
        self.times = sent(self.times, device)
        self.weight = None if self.weight is None else sent(self.weight, device)
        for tree in self.found.trees:
            hops, at = [], []
            for hop in tree.hops:
                slot, there, edge, elapsed = (sent(torch.from_numpy(part), device) for part in (hop.slot, hop.there, hop.edge, hop.elapsed))
                weight = None if hop.weight is None else sent(torch.from_numpy(hop.weight), device)
                hops.append(Hop(slot, there, elapsed, None, int(np.count_nonzero(hop.there)), weight))
                at.append(edge)
            self.trees.append(Tree([sent(torch.from_numpy(level), device) for level in tree.levels], hops))
            self.edge_at.append(at)
        self.ends = self.trees[0].levels[0][: 2 * len(self.events)]

    def receive(self, memory: tuple[Pending, Tensor, Tensor | None], edges: Tensor | None) -> None:
        """Rows of other ranks, on the device: memory and mailbox, when heard of, features of nodes; features of edges."""
        uses(self.features, self.edges)
        pending, heard, features = memory
        self.come = pending, heard
        if features is not None and self.features is not None:
            self.features = torch.cat([self.features, features])
        if edges is not None and self.edges is not None:
            self.edges = torch.cat([self.edges, edges])

    def whole(self) -> None:
        """All rows at hand, in the order of its nodes and slots."""
        assert self.pending is not None and self.heard is not None
        uses(*self.pending, self.heard, self.edges, *(at for one in self.edge_at for at in one))
        if self.come is not None:
            pending, heard = self.come
            uses(*pending, heard)
            self.pending = Pending(*(torch.cat(parts) for parts in zip(self.pending, pending, strict=True)))
            self.heard, self.come = torch.cat([self.heard, heard]), None
        if self.edges is not None:
            for tree, at in zip(self.trees, self.edge_at, strict=True):
                for number, (hop, index) in enumerate(zip(tree.hops, at, strict=True)):
                    tree.hops[number] = hop._replace(edge=_slots(self.edges, index))
            self.edges = None


def _slots(edges: Tensor, index: Tensor) -> Tensor:
    """[T, K, D]; zeros where no edge was sampled at all."""
    return edges[index] if len(edges) else edges.new_zeros(*index.shape, edges.shape[1])


def _ordered(found: Neighbourhood, nodes: RowsByOwner, edges: RowsByOwner) -> Neighbourhood:
    """The same, its rows in the order of where they are."""
    node_at, edge_at = (_places(one.order) for one in (nodes, edges))
    trees = []
    for tree in found.trees:
        hops = [hop if not edge_at.size else hop._replace(edge=edge_at[hop.edge]) for hop in tree.hops]
        trees.append(tree._replace(levels=[node_at[level] for level in tree.levels], hops=hops))
    return Neighbourhood(nodes.ids, edges.ids, trees)


def _places(order: Int64) -> Int64:
    found = np.empty(order.size, np.int64)
    found[order] = np.arange(order.size)
    return found
