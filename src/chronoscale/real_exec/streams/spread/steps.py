"""SpreadSteps: what is done to a batch where memory is spread over ranks, one step after another. Every rank takes part in what ranks do
together, with a batch or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.prepared import NO_FEATURES, replace_absent
from chronoscale.batching.streams.ranks.contributions import Contributions
from chronoscale.batching.streams.ranks.remote_reads import RowsByOwner, rows_by_owner
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.boundary import LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.arrays import Float32, Int32, Int64
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.lanes import uses
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.material import Material
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.spread.batch import SpreadBatch
from chronoscale.real_exec.streams.spread.contributing import Computed
from chronoscale.real_exec.streams.spread.held import Held
from chronoscale.real_exec.streams.spread.history import History
from chronoscale.real_exec.streams.steps import Steps
from chronoscale.strategies.workload import Hyper

NOTHING: Int32 = np.empty(0, np.int32)


class Wanted(NamedTuple):
    """What other ranks ask this one for: nodes and events int32, rank by rank, and how many of each, a number a rank."""

    nodes: Int32
    edges: Int32
    counts: tuple[Sequence[int], Sequence[int]]


class SpreadSteps(Steps):
    """Of one rank. fetched, sent_back: bytes of rows that have come from other ranks, and of contributions."""

    def __init__(
        self,
        material: Material,
        model: StreamModel,
        held: Held,
        history: History | None,
        sampling: Sampling,
        hyper: Hyper,
        context: Context,
    ) -> None:
        """history: of shared nodes whose memory is smoothed; None: it is not."""
        residents = material.data.residents(context.ranks, hyper.batch_size, sampling, hyper.batches, NO_FEATURES)
        super().__init__(material, model, held.state, sampling, residents, context)
        self.held, self.history, self.context, self.rank = held, history, context, context.rank
        self.fetched = self.sent_back = 0
        self._edges = bool(material.shape.edge and material.shape.layers)

    def boundary(self, theta: float) -> None:
        """Sample another share of remote neighbours from now on; nothing where all are sampled."""
        if self._sampling.boundary is not None:
            self._sampling = replace(self._sampling, boundary=replace(self._sampling.boundary, theta=theta))

    def around(
        self, source: IndexedStream, seat: LocalPart | None, events: Int64, others: tuple[Int32, Float32 | None], before: int, seed: int
    ) -> SpreadBatch:
        """The batch of these events, told from others [B, k], with what each of those counts for."""
        roots = source.roots(events, replace_absent(others[0]), before, self._sampling.sources)
        found = neighbourhood.sample(source.tcsr, source.stream.t, roots, self._sampling, seed, self.threads, local_part=seat)
        if seat is None:
            away = (_own(found.nodes, self.context), _own(source.original(found.edges), self.context))
        else:
            away = rows_by_owner(found, source, seat, self._edges)
        return SpreadBatch.around(source, events, others, roots[2], found, away)

    def ask(self, batch: SpreadBatch | None) -> Wanted:
        """Tell other ranks what is asked for, and hear what they ask for."""
        asked = (NOTHING, NOTHING) if batch is None or batch.away is None else tuple(one.asked for one in batch.away)
        counts = np.zeros((self.context.ranks, 2), np.int64)
        if batch is not None and batch.away is not None:
            counts = np.stack([one.counts for one in batch.away], axis=1).astype(np.int64)
        ones = [1] * self.context.ranks
        told = self._exchanged(torch.from_numpy(counts), ones, ones).cpu().numpy()
        kinds = zip(asked, counts.T, told.T, strict=True) if self._edges else ((asked[0], counts[:, 0], told[:, 0]),)
        found = [
            self._exchanged(torch.from_numpy(ids[:, None].copy()), out.tolist(), into.tolist()).cpu().numpy()[:, 0]
            for ids, out, into in kinds
        ]
        return Wanted(found[0], found[1] if self._edges else NOTHING, (told[:, 0].tolist(), told[:, 1].tolist()))

    def fetch(self, batch: SpreadBatch | None, wanted: Wanted) -> None:
        """Send what is wanted, and receive what was asked for: to the device."""
        none = [0] * self.context.ranks
        asks = [none, none] if batch is None or batch.away is None else [one.counts.tolist() for one in batch.away]
        come = self._exchanged(self.held.served(wanted.nodes), wanted.counts[0], asks[0])
        features, edges = self.material.edge_features, None
        if self._edges and features is not None:
            given = torch.from_numpy(np.ascontiguousarray(features[wanted.edges]))
            edges = self._exchanged(given, wanted.counts[1], asks[1])
        self.fetched += come.numel() + (0 if edges is None else 4 * edges.numel())
        if batch is not None:
            batch.receive(self.held.opened(come), edges)

    def returned(self, found: Contributions, own: Computed) -> Computed:
        """Contributions of all ranks to rows that this one has, for its own ones to rows of others; in the order of ranks."""
        counts, rank = found.counts(self.context.ranks)[:, 1:], self.rank
        counts[np.arange(len(counts)), np.arange(len(counts))] = 0
        home = found.home[found.of(rank)]
        rows = self._exchanged(
            own.part(torch.from_numpy((home >= 0) & (home != rank))).packed(), counts[rank].tolist(), counts[:, rank].tolist()
        )
        self.sent_back += rows.numel()
        return Computed.unpacked(rows.cpu(), self.material.shape)

    def _exchanged(self, values: Tensor, out: Sequence[int], into: Sequence[int]) -> Tensor:
        """Rows [sum(out), W] of this rank, out[q] to rank q; into[q] of them from every rank q."""
        values = sent(values, self._device)
        made = values.new_empty(sum(into), values.shape[1])
        self.context.exchange.all_to_all(made, values, into, out)
        return made

    def read(self, batch: Batch) -> None:
        """Memory and mailbox of its nodes that the rank has, and what is expected of shared ones."""
        nodes = batch.loads.state.send
        batch.pending, batch.heard = self.held.read(nodes)
        if self.history is not None and isinstance(batch, SpreadBatch):
            common = self.held.common[nodes]
            at = np.flatnonzero(common >= 0)
            at = at[self.history.seen.numpy()[common[at]]]
            time = batch.heard[torch.from_numpy(at)]
            batch.expected = torch.from_numpy(at), self.history.expected(torch.from_numpy(common[at]), time)

    def send_pending(self, batch: Batch) -> None:
        """To the device."""
        super().send_pending(batch)
        if isinstance(batch, SpreadBatch) and batch.expected is not None:
            at, memory = batch.expected
            batch.expected = sent(at, self._device), sent(memory, self._device)

    def update(self, batch: Batch) -> None:
        """Memory with its mails in it; of shared nodes that have mail, mixed with what is expected (eq. 21)."""
        assert isinstance(batch, SpreadBatch)
        batch.whole()
        super().update(batch)
        if batch.expected is not None and batch.memory is not None and batch.pending is not None and self.model.smoothing is not None:
            at, memory = batch.expected
            uses(at, memory)
            heard, own = batch.pending.there.index_select(0, at).any(1), batch.memory.index_select(0, at)
            mixed = torch.where(heard[:, None], self.model.smoothing(own, memory), own)  # of all: a mask would have the host wait
            batch.memory = batch.memory.index_copy(0, at, mixed)

    def bring(self, batch: SpreadBatch | None, exchanges: bool) -> None:
        """All of it up to memory that is up to date; `exchanges`: whether rows come from other ranks."""
        if batch is not None:
            self.gather(batch)
            self.send(batch)
        if exchanges:
            self.fetch(batch, self.ask(batch))
        if batch is not None:
            self.read(batch)
            self.send_pending(batch)
            self.update(batch)

    def ends(self, batch: SpreadBatch | None) -> tuple[Tensor, Tensor]:
        """Memory [2, B, H] and its time [2, B] of its events' sources and destinations."""
        if batch is None:
            return torch.zeros(2, 0, self.material.shape.memory), torch.zeros(2, 0, dtype=torch.float64)
        assert batch.memory is not None and batch.heard is not None and batch.ends is not None
        uses(batch.memory, batch.heard, batch.ends)
        memory, heard = batch.memory.detach().index_select(0, batch.ends), batch.heard.index_select(0, batch.ends)
        return memory.view(2, len(batch.events), -1), heard.view(2, -1)


def _own(ids: Int32, context: Context) -> RowsByOwner:
    """Rows that the rank has, all of them."""
    return RowsByOwner(ids, np.full(ids.size, context.rank), context.rank, context.ranks)
