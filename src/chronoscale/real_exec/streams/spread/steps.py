"""SpreadSteps: what is done to a batch where memory is spread over ranks, one step after another.

Every rank takes part in what ranks do together, with a batch or without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.prepared import NO_FEATURES, replace_absent
from chronoscale.batching.streams.ranks.contributions import Contributions
from chronoscale.batching.streams.ranks.remote_reads import RowsByOwner, look_up, rows_by_owner
from chronoscale.batching.streams.ranks.remote_row_cache import CacheLookup, RemoteRowCache
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.boundary import LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.arrays import Float32, Int32, Int64
from chronoscale.real_exec.execution.transfers import record_use, to_device
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.spread.batch import SpreadBatch
from chronoscale.real_exec.streams.spread.contributions import ComputedContributions
from chronoscale.real_exec.streams.spread.memory_group import MemoryGroup
from chronoscale.real_exec.streams.spread.memory_part import MemoryPart
from chronoscale.real_exec.streams.spread.shared_history import SharedHistory
from chronoscale.real_exec.streams.steps import Steps
from chronoscale.strategies.workload import Hyper

NOTHING: Int32 = np.empty(0, np.int32)


class RemoteRequests(NamedTuple):
    """Requests of other ranks to this one for rows of nodes and of events: ids int32, rank by rank, and how many of each, a number a
    rank. own: how many this rank asks each other one for; lookups: of what its batch reads in its cache of
    others' rows, None without one.
    """

    nodes: Int32
    edges: Int32
    counts: tuple[Sequence[int], Sequence[int]]
    own: tuple[Sequence[int], Sequence[int]]
    lookups: tuple[CacheLookup, CacheLookup] | None = None


class SpreadSteps(Steps):
    """The steps of one rank's batches of events where node memory is spread over ranks; those of its group exchange rows.

    fetched, sent_back: bytes of rows received from other ranks, and of contributions to memory sent to them.
    """

    def __init__(
        self,
        material: StreamMaterial,
        model: StreamModel,
        part: MemoryPart,
        history: SharedHistory | None,
        sampling: Sampling,
        hyper: Hyper,
        group: MemoryGroup,
    ) -> None:
        """history: of shared nodes whose memory is smoothed; None: none is."""
        context = group.context
        residents = material.data.residents(context.ranks, hyper.batch_size, sampling, hyper.batches, NO_FEATURES)
        super().__init__(material, model, part.state, sampling, residents, context)
        self.memory_part = part
        self.history = history
        self.group = group
        self.fetched = self.sent_back = 0
        self._edges = bool(material.shape.edge and material.shape.layers)
        self._cache: tuple[Tensor, Tensor] | None = None

    def boundary(self, theta: float) -> None:
        """Sample another share, theta, of neighbours on other ranks from now on (MemShare); nothing changes where all are sampled."""
        if self._sampling.boundary is not None:
            self._sampling = replace(self._sampling, boundary=replace(self._sampling.boundary, theta=theta))

    def around(
        self,
        source: IndexedStream,
        seat: LocalPart | None,
        events: Int64,
        others: tuple[Int32, Float32 | None],
        before: int,
        seed: int,
        cache: RemoteRowCache | None = None,
        iteration: int = 0,
    ) -> SpreadBatch:
        """Sample this rank's batch of these events, with neighbours on other ranks, and look its rows up in the cache of others' rows.

        seat: which nodes this rank has. others: negatives [B, k], and their weights in the loss or None. before: the first event that is
        not seen. cache: of rows from earlier iterations, for which batches come in order; None: there is none. iteration: the batch's.
        """
        seat = seat._replace(cached=cache.rows(self._edges)) if seat is not None and cache is not None else seat
        roots = source.roots(events, replace_absent(others[0]), before, self._sampling.sources)
        sampled = neighbourhood.sample(source.tcsr, source.stream.t, roots, self._sampling, seed, self.threads, local_part=seat)
        if seat is None:
            away = (_own(sampled.nodes, self.group), _own(source.original(sampled.edges), self.group))
        else:
            away = rows_by_owner(sampled, source, seat, self._edges)
        batch = SpreadBatch.around(source, events, others, roots[2], sampled, away)
        batch.lookups = look_up(cache, iteration, away, sampled)
        return batch

    def allocate_cache(self, rows: int) -> None:
        """Allocate a cache for so many rows of other ranks on the device, of nodes and of events each (`RemoteRowCache`)."""
        stream, width = self.material.data.whole.stream, self.material.shape.edge if self._edges else 0
        nodes = torch.empty(min(rows, stream.num_nodes), self.memory_part.row, dtype=torch.uint8, device=self._device)
        self._cache = nodes, torch.empty(min(rows, len(stream)) if width else 0, width, device=self._device)

    def ask(self, batch: SpreadBatch | None) -> RemoteRequests:
        """Exchange between ranks which rows their batches need of each other, but for those that a cache has; return what others request of
        this rank. Every rank calls it. batch: None where this rank has no events.
        """
        ids_of, lookups = [NOTHING, NOTHING], None
        counts = np.zeros((self.group.members, 2), np.int64)
        if batch is not None and batch.remote is not None:
            lookups = batch.lookups
            missing = [remote.missing(lookup) for remote, lookup in zip(batch.remote, lookups or (None, None), strict=True)]
            ids_of, counts = [ids for ids, _ in missing], np.stack([each for _, each in missing], axis=1).astype(np.int64)
        ones = [1] * self.group.members
        their_counts = self.group.all_to_all(torch.from_numpy(counts), ones, ones).cpu().numpy()
        kinds = zip(ids_of, counts.T, their_counts.T, strict=True) if self._edges else ((ids_of[0], counts[:, 0], their_counts[:, 0]),)
        received = [
            self.group.all_to_all(torch.from_numpy(ids[:, None].copy()), out.tolist(), into.tolist()).cpu().numpy()[:, 0]
            for ids, out, into in kinds
        ]
        theirs, own = ((each[:, 0].tolist(), each[:, 1].tolist()) for each in (their_counts, counts))
        return RemoteRequests(received[0], received[1] if self._edges else NOTHING, theirs, own, lookups)

    def fetch(self, batch: SpreadBatch | None, requests: RemoteRequests) -> None:
        """Send the rows that other ranks request, and receive those that this rank's batch needs, on the device. Every rank calls it."""
        received = self.group.all_to_all(self.memory_part.pack_rows(requests.nodes), requests.counts[0], requests.own[0])
        features, edges = self.material.edge_features, None
        if self._edges and features is not None:
            features_sent = torch.from_numpy(np.ascontiguousarray(features[requests.edges]))
            edges = self.group.all_to_all(features_sent, requests.counts[1], requests.own[1])
        self.fetched += received.numel() + (0 if edges is None else 4 * edges.numel())
        if batch is not None:
            if self._cache is not None and requests.lookups is not None:
                received = join_cached(self._cache[0], requests.lookups[0], received)
                edges = None if edges is None else join_cached(self._cache[1], requests.lookups[1], edges)
            batch.receive(self.memory_part.unpack_rows(received), edges)

    def exchange_contributions(self, contributions: Contributions, own: ComputedContributions) -> ComputedContributions:
        """Exchange between ranks what their events write to each other's node memory; return all ranks' contributions to this one's, in the
        order of ranks.

        contributions: planned, of all ranks; own: computed, of this one. Every rank calls it.
        """
        counts, rank = contributions.counts(self.group.members)[:, 1:], self.group.part
        counts[np.arange(len(counts)), np.arange(len(counts))] = 0
        home = contributions.home[contributions.of(rank)]
        rows = self.group.all_to_all(
            own.part(torch.from_numpy((home >= 0) & (home != rank))).pack(), counts[rank].tolist(), counts[:, rank].tolist()
        )
        self.sent_back += rows.numel()
        return ComputedContributions.unpack(rows.cpu(), self.material.shape)

    def read(self, batch: Batch) -> None:
        """Read memory and mailbox of those of the batch's nodes that this rank has, and what is expected of shared ones."""
        nodes = batch.loads.state.send
        batch.memory_rows, batch.last_update = self.memory_part.read(nodes)
        if self.history is not None and isinstance(batch, SpreadBatch):
            common = self.memory_part.common[nodes]
            at = np.flatnonzero(common >= 0)
            at = at[self.history.seen.numpy()[common[at]]]
            time = batch.last_update[torch.from_numpy(at)]
            batch.expected = torch.from_numpy(at), self.history.expected(torch.from_numpy(common[at]), time)

    def send_memory(self, batch: Batch) -> None:
        super().send_memory(batch)
        if isinstance(batch, SpreadBatch) and batch.expected is not None:
            at, memory = batch.expected
            batch.expected = to_device(at, self._device), to_device(memory, self._device)

    def update(self, batch: Batch) -> None:
        """Apply messages to the batch's memory; memory of shared nodes that have any is mixed with what is expected (MemShare eq. 21)."""
        assert isinstance(batch, SpreadBatch)
        batch.whole()
        super().update(batch)
        if batch.expected is not None and batch.memory is not None and batch.memory_rows is not None and self.model.smoothing is not None:
            at, memory = batch.expected
            record_use(at, memory)
            has_mail, own = batch.memory_rows.there.index_select(0, at).any(1), batch.memory.index_select(0, at)
            mixed = torch.where(has_mail[:, None], self.model.smoothing(own, memory), own)  # of all: a mask would have the host wait
            batch.memory = batch.memory.index_copy(0, at, mixed)

    def prepare(self, batch: SpreadBatch | None, exchanges: bool) -> None:
        """Run all steps of a batch up to updated memory, as evaluation does.

        exchanges: whether rows come from other ranks, which then all call it.
        """
        if batch is not None:
            self.gather(batch)
            self.send(batch)
        if exchanges:
            self.fetch(batch, self.ask(batch))
        if batch is not None:
            self.read(batch)
            self.send_memory(batch)
            self.update(batch)

    def ends(self, batch: SpreadBatch | None) -> tuple[Tensor, Tensor]:
        """Return memory [2, B, H] and its time [2, B] of the sources and destinations of the batch's events; empty for no batch."""
        if batch is None:
            return torch.zeros(2, 0, self.material.shape.memory), torch.zeros(2, 0, dtype=torch.float64)
        assert batch.memory is not None and batch.last_update is not None and batch.ends is not None
        record_use(batch.memory, batch.last_update, batch.ends)
        memory, times = batch.memory.detach().index_select(0, batch.ends), batch.last_update.index_select(0, batch.ends)
        return memory.view(2, len(batch.events), -1), times.view(2, -1)


def join_cached(table: Tensor, lookup: CacheLookup, received: Tensor) -> Tensor:
    """Return rows that a batch reads of other ranks, [n, W]: its cache's hits in `table` [slots, W], and those that were received,
    which are written there where they have a slot."""
    stored, missing = lookup.slot[~lookup.hit], np.flatnonzero(~lookup.hit)
    of = np.flatnonzero(lookup.hit), lookup.slot[lookup.hit], missing, np.flatnonzero(stored >= 0), stored[stored >= 0]
    there, read_at, new, roomy, written_at = (to_device(torch.from_numpy(places), table.device) for places in of)
    rows = received.new_empty(len(lookup.hit), received.shape[1])
    rows.index_copy_(0, there, table.index_select(0, read_at))
    rows.index_copy_(0, new, received)
    table.index_copy_(0, written_at, received.index_select(0, roomy))
    return rows


def _own(ids: Int32, group: MemoryGroup) -> RowsByOwner:
    """Return rows that the rank has, all of them."""
    return RowsByOwner(ids, np.full(ids.size, group.part), group.part, group.members)
