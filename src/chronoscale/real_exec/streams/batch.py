"""Batch: one rank's events of one iteration: what was sampled around them, and its rows, on the host and then on the device."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.caching.resident_rows import BatchLoads
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.cuda_ext.operators.tables import gather_rows
from chronoscale.datasets.arrays import Int32, Int64, Numbers
from chronoscale.datasets.streams.event_numbers import EventNumbers
from chronoscale.real_exec.execution.lanes import uses
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.streams.cache import Cache
from chronoscale.real_exec.streams.pending import Pending
from chronoscale.real_exec.streams.tree import Hop, Tree


@dataclass(slots=True, eq=False)
class Batch:
    """source: its stream. events: numbers there. others int32 [B, k]: what they are told from, -1 where there is none. found: what the
    sampler says. loads: which of its rows are sent, and where they are read.

    What the rows of a schedule make of it follows as they run. features [U, F], edges: gathered rows, then rows as they are read; trees: on
    the device once they are sent; at, edge_at, state_at: where rows are read; kept: slots of those that stay; times float64 [R] of the
    roots; pending, heard [U]: of node memory; memory [U, H] with its mails in it; below: of every tree, the rows of each level that is
    left.
    """

    source: IndexedStream
    events: EventNumbers
    others: Int32
    found: neighbourhood.Neighbourhood
    loads: BatchLoads
    times: Tensor
    features: Tensor | None = None
    edges: Tensor | None = None
    trees: list[Tree] = field(default_factory=list)
    at: Tensor | None = None
    edge_at: list[list[Tensor]] = field(default_factory=list)
    state_at: Tensor | None = None
    kept: tuple[Tensor | None, Tensor | None] = (None, None)
    pending: Pending | None = None
    heard: Tensor | None = None
    memory: Tensor | None = None
    below: list[list[Tensor]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        source: IndexedStream,
        events: EventNumbers,
        others: Int32,
        times: Numbers,
        found: neighbourhood.Neighbourhood,
        loads: BatchLoads,
    ) -> Batch:
        """Of what was sampled; nothing is gathered yet."""
        return cls(source, events, others, found, loads, torch.from_numpy(times).double())

    @property
    def nodes(self) -> Tensor:
        """Rows of node memory that it reads, int64 [S]."""
        return torch.from_numpy(self.loads.state.send).long()

    def weighed(self, logits: Tensor) -> Tensor | None:
        """What each of its logits [B, 1 + k] counts for in the loss, None: 1."""
        return None

    def send(self, device: torch.device) -> None:
        """Indices and gathered rows to the device. Edge features stand in slots there, at once where a row came for each edge."""
        self.features, self.edges = (None if rows is None else sent(rows, device) for rows in (self.features, self.edges))
        self.times = sent(self.times, device)
        nodes, edges, state = self.loads
        self.at, self.state_at = _sent(nodes.at, device), None
        self.state_at = self.at if state.at is nodes.at else _sent(state.at, device)
        self.kept = _sent(nodes.kept, device), _sent(edges.kept, device)
        for tree in self.found.trees:
            hops, at = [], []
            for hop in tree.hops:
                index = hop.edge if edges.at is None or not edges.at.size else edges.at[hop.edge]
                slot, there, edge, elapsed = (sent(torch.from_numpy(part), device) for part in (hop.slot, hop.there, index, hop.elapsed))
                whole = self.edges is not None and edges.at is None
                filled = int(np.count_nonzero(hop.there))
                weight = None if hop.weight is None else sent(torch.from_numpy(hop.weight), device)
                hops.append(Hop(slot, there, elapsed, _rows(self.edges, edge) if whole else None, filled, weight))
                at.append(edge)
            self.trees.append(Tree([sent(torch.from_numpy(level), device) for level in tree.levels], hops))
            self.edge_at.append(at)
        if edges.at is None:
            self.edges = None

    def expand(self, cache: Cache) -> None:
        """Features as a model reads them, from the cache and from what was sent; and what of that the cache keeps for later batches."""
        uses(self.features, self.edges, self.at, *self.kept, *(at for one in self.edge_at for at in one))
        came = self.features, self.edges
        if self.at is not None and self.features is not None and cache.nodes is not None:
            self.features = gather_rows(cache.nodes, self.features, self.at)
        if self.edges is not None and cache.edges is not None and self.loads.edges.at is not None:
            for tree, at in zip(self.trees, self.edge_at, strict=True):
                for number, (hop, index) in enumerate(zip(tree.hops, at, strict=True)):
                    tree.hops[number] = hop._replace(edge=self._slots(cache.edges, index))
        self.edges = None
        cache.keep(*came, self.kept)

    def _slots(self, cached: Tensor, index: Tensor) -> Tensor:
        assert self.edges is not None
        if not self.found.edges.size:
            return _rows(self.edges[:0], index)
        return gather_rows(cached, self.edges, index.flatten()).view(*index.shape, -1)

    def send_pending(self, device: torch.device) -> None:
        """Rows of node memory and mailbox to the device."""
        assert self.pending is not None and self.heard is not None
        self.pending = Pending(*(sent(part, device) for part in self.pending))
        self.heard = sent(self.heard, device)

    def expand_pending(self) -> None:
        """Rows of node memory and mailbox as often as they are read."""
        assert self.pending is not None and self.heard is not None and self.state_at is not None
        uses(*self.pending, self.heard, self.state_at)
        self.pending = Pending(*(part.index_select(0, self.state_at) for part in self.pending))
        self.heard = self.heard.index_select(0, self.state_at)


def _sent(index: Int64 | None, device: torch.device) -> Tensor | None:
    return None if index is None else sent(torch.from_numpy(index), device)


def _rows(edges: Tensor | None, index: Tensor) -> Tensor:
    """[T, K, D]; zeros where no edge was sampled at all."""
    assert edges is not None
    if not len(edges):
        return edges.new_zeros(*index.shape, edges.shape[1])
    return edges[index]
