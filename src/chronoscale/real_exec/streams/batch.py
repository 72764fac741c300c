"""Batch: one rank's events of one iteration, their sampled neighbourhood, and its rows, on the host and then on the device."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.caching.resident_rows import BatchLoads
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood
from chronoscale.cuda_ext.operators.tables import gather_rows
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Int32, Int64, Numbers
from chronoscale.datasets.streams.event_numbers import EventNumbers
from chronoscale.real_exec.execution.transfers import record_use, to_device
from chronoscale.real_exec.streams.feature_cache import FeatureCache
from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.tree import Hop, Tree


@dataclass(slots=True, eq=False)
class Batch:
    """Events that one rank trains on in one iteration, with their sampled neighbourhood and the tensors that rows of the schedule compute
    from them.

    Known when it is sampled: source: its stream; events: their numbers there; others int32 [B, k]: negative destinations, -1 for none;
    neighbourhood: as sampled; loads: which of its rows are sent, and where they are read; times float64 [R]: of the roots (the nodes that
    are embedded).

    Filled in later: features [U, F] of nodes, edges (features of events): gathered rows, then rows as the model reads them; trees: on the
    device; at, edge_at, state_at: where sent rows are read; kept: cache slots of rows that stay; memory_rows, last_update [U]: of node
    memory; memory [U, H]: with its messages applied; below: of every tree, the rows of each level that is left.
    """

    source: IndexedStream
    events: EventNumbers
    others: Int32
    neighbourhood: Neighbourhood
    loads: BatchLoads
    times: Tensor
    features: Tensor | None = None
    edges: Tensor | None = None
    trees: list[Tree] = field(default_factory=list)
    at: Tensor | None = None
    edge_at: list[list[Tensor]] = field(default_factory=list)
    state_at: Tensor | None = None
    kept: tuple[Tensor | None, Tensor | None] = (None, None)
    memory_rows: MemoryRows | None = None
    last_update: Tensor | None = None
    memory: Tensor | None = None
    below: list[list[Tensor]] = field(default_factory=list)

    @classmethod
    def of(
        cls, source: IndexedStream, events: EventNumbers, others: Int32, times: Numbers, neighbourhood: Neighbourhood, loads: BatchLoads
    ) -> Batch:
        """Make a rank's batch of what was sampled around its events; nothing is gathered yet.

        source: the stream that the events' numbers are of; others int32 [B, k]: negative destinations; times [R]: of the roots; loads:
        which of the neighbourhood's rows are sent to the device.
        """
        return cls(source, events, others, neighbourhood, loads, torch.from_numpy(times).double())

    @property
    def nodes(self) -> Tensor:
        """Return the nodes whose memory the batch reads, int64 [S]."""
        return torch.from_numpy(self.loads.state.send).long()

    def logit_weights(self, logits: Tensor) -> Tensor | None:
        """Return the weight of each of the batch's logits [B, 1 + k] in the loss; None: 1 each."""
        return None

    def send(self, device: torch.device) -> None:
        """Copy the batch's indices and gathered features to the rank's device.

        Edge features are put in their neighbour slots there, if every edge has a row of its own.
        """
        self.features, self.edges = (None if rows is None else to_device(rows, device) for rows in (self.features, self.edges))
        self.times = to_device(self.times, device)
        nodes, edges, state = self.loads
        self.at, self.state_at = _to_device(nodes.at, device), None
        self.state_at = self.at if state.at is nodes.at else _to_device(state.at, device)
        self.kept = _to_device(nodes.kept, device), _to_device(edges.kept, device)
        for tree in self.neighbourhood.trees:
            hops, at = [], []
            for hop in tree.hops:
                index = hop.edge if edges.at is None or not edges.at.size else edges.at[hop.edge]
                slot, there, edge, elapsed = (
                    to_device(torch.from_numpy(part), device) for part in (hop.slot, hop.there, index, hop.elapsed)
                )
                whole = self.edges is not None and edges.at is None
                filled = int(np.count_nonzero(hop.there))
                weight = None if hop.weight is None else to_device(torch.from_numpy(hop.weight), device)
                hops.append(Hop(slot, there, elapsed, _rows(self.edges, edge) if whole else None, filled, weight))
                at.append(edge)
            self.trees.append(Tree([to_device(torch.from_numpy(level), device) for level in tree.levels], hops))
            self.edge_at.append(at)
        if edges.at is None:
            self.edges = None

    def send_names(self, device: torch.device) -> None:
        """Copy to the rank's device which of a sent batch's rows are of equal nodes (`Tree.names`)."""
        names = unique_ids(self.neighbourhood.nodes)[1]
        for number, tree in enumerate(self.trees):
            levels = self.neighbourhood.trees[number].levels
            self.trees[number] = tree._replace(names=[to_device(torch.from_numpy(names[level]), device) for level in levels])

    def expand(self, cache: FeatureCache) -> None:
        """Put the batch's features where the model reads them, on the device: from the cache there, and from what was sent.

        The cache keeps some of these for later batches.
        """
        record_use(self.features, self.edges, self.at, *self.kept, *(at for tree_at in self.edge_at for at in tree_at))
        sent_rows = self.features, self.edges
        if self.at is not None and self.features is not None and cache.nodes is not None:
            self.features = gather_rows(cache.nodes, self.features, self.at)
        if self.edges is not None and cache.edges is not None and self.loads.edges.at is not None:
            for tree, at in zip(self.trees, self.edge_at, strict=True):
                for number, (hop, index) in enumerate(zip(tree.hops, at, strict=True)):
                    tree.hops[number] = hop._replace(edge=self._slots(cache.edges, index))
        self.edges = None
        cache.keep(*sent_rows, self.kept)

    def _slots(self, cached: Tensor, index: Tensor) -> Tensor:
        assert self.edges is not None
        if not self.neighbourhood.edges.size:
            return _rows(self.edges[:0], index)
        return gather_rows(cached, self.edges, index.flatten()).view(*index.shape, -1)

    def send_memory(self, device: torch.device) -> None:
        """Copy the batch's rows of node memory and mailbox to the rank's device."""
        assert self.memory_rows is not None and self.last_update is not None
        self.memory_rows = MemoryRows(*(to_device(part, device) for part in self.memory_rows))
        self.last_update = to_device(self.last_update, device)

    def expand_memory(self) -> None:
        """Repeat the batch's rows of node memory and mailbox on the device as often as the model reads them."""
        assert self.memory_rows is not None and self.last_update is not None and self.state_at is not None
        record_use(*self.memory_rows, self.last_update, self.state_at)
        self.memory_rows = MemoryRows(*(part.index_select(0, self.state_at) for part in self.memory_rows))
        self.last_update = self.last_update.index_select(0, self.state_at)


def _to_device(index: Int64 | None, device: torch.device) -> Tensor | None:
    return None if index is None else to_device(torch.from_numpy(index), device)


def _rows(edges: Tensor | None, index: Tensor) -> Tensor:
    """Return edge features at these places, [T, K, D]; zeros where no edge was sampled at all."""
    assert edges is not None
    if not len(edges):
        return edges.new_zeros(*index.shape, edges.shape[1])
    return edges[index]
