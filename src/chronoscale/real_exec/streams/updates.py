"""Updates: what an iteration leaves in memory and mailbox, on all ranks alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.delivery import deliver_mail
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.statistics import last_events
from chronoscale.datasets.arrays import Bool, Int64
from chronoscale.real_exec.execution.transfers import acquire, to_device
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.material import rows
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.state import NodeState


@dataclass(frozen=True, slots=True, eq=False)
class UpdatedNodes:
    """Nodes whose memory the events of an iteration change, ordered by the rank that has the last event of each.

    nodes int64 [U]; last int64 [U]: the last event of each; source bool [U]: it is the source of that event. counts: how many each rank
    has.
    """

    nodes: Int64
    last: Int64
    source: Bool
    counts: tuple[int, ...]

    @classmethod
    def of(cls, source: IndexedStream, deal: BatchAssignment, iteration: int) -> UpdatedNodes:
        """Find the nodes whose memory the events of an iteration change; every rank finds the same, as all read the stream.

        deal: which events each rank has.
        """
        whole = deal.all_events(iteration)
        span = slice(whole.start, whole.stop)
        src = np.asarray(source.stream.src[span])
        nodes, last = last_events(src, np.asarray(source.stream.dst[span]))
        owner = last // deal.size
        order = np.argsort(owner, kind="stable")
        counts, ends = np.bincount(owner, minlength=deal.ranks), nodes[order].astype(np.int64)
        return cls(ends, last[order] + whole.start, src[last[order]] == ends, tuple(counts.tolist()))

    def own(self, rank: int) -> slice:
        """Return which of the updated nodes `rank` has the last event of, and so computes, as places among them."""
        first = sum(self.counts[:rank])
        return slice(first, first + self.counts[rank])

    def rows(self, batch: Batch, rank: int) -> Tensor:
        """Return where the updated nodes of `rank` stand among those of its batch, int64 [u].

        Its events are the first roots, sources before destinations.
        """
        own = self.own(rank)
        assert isinstance(batch.events, range)
        place = self.last[own] - batch.events.start + len(batch.events) * ~self.source[own]
        return torch.from_numpy(batch.neighbourhood.trees[0].levels[0][place])


def contribution(updated: UpdatedNodes, batch: Batch | None, rank: int, width: int, device: torch.device) -> Tensor:
    """Return what one rank's batch contributes to all ranks' node memory: that of its updated nodes, float32 [u, H] on the device.

    batch: None for no events, so that u is 0. width: H.
    """
    if batch is None:
        return torch.zeros(0, width, device=device)
    assert batch.memory is not None
    return acquire(batch.memory).detach()[to_device(updated.rows(batch, rank), device)]


@torch.no_grad()
def write_updates(
    whole: range, updated: UpdatedNodes, memory: Tensor, source: IndexedStream, model: StreamModel, state: NodeState, delivers: int
) -> None:
    """Write the memory of the nodes that an iteration's events have changed to this rank's tables, and deliver the events' messages to
    mailboxes.

    whole: the events, of all ranks. memory: [U, H], in host memory. delivers: to how many latest neighbours messages go, too (APAN); 0: to
    the events' own nodes alone.
    """
    state.write(torch.from_numpy(updated.nodes), memory)
    if delivers:
        _to_neighbours(whole, source, model, state, delivers)
    else:
        _to_ends(updated, memory, source, model, state)


def _to_ends(updated: UpdatedNodes, memory: Tensor, source: IndexedStream, model: StreamModel, state: NodeState) -> None:
    """Deliver to each node the message of its last event (TGN §3.2, "last")."""
    events = source.stream
    other = np.where(updated.source, events.dst[updated.last], events.src[updated.last])
    edge = rows(events.features, updated.last) if model.shape.edge else None
    mail = model.mail(memory, state.memory.index_select(0, torch.from_numpy(other).long()), edge)
    time = torch.from_numpy(events.t[updated.last]).double()
    state.post(torch.from_numpy(updated.nodes), mail, time, torch.from_numpy(updated.source))


def _to_neighbours(whole: range, source: IndexedStream, model: StreamModel, state: NodeState, fanout: int) -> None:
    """Deliver to each node the mean of the messages that it gets, at the time of the latest (APAN §3.4)."""
    events = source.stream
    deliveries = deliver_mail(source, whole, fanout)
    span = slice(whole.start, whole.stop)
    src, dst = (torch.from_numpy(np.array(end[span])).long() for end in (events.src, events.dst))
    edge = rows(events.features, np.arange(whole.start, whole.stop)) if model.shape.edge else None
    mail = model.mail(state.memory.index_select(0, src), state.memory.index_select(0, dst), edge)
    nodes, to = torch.from_numpy(deliveries.nodes), torch.from_numpy(deliveries.to)
    total = mail.new_zeros(len(nodes), mail.shape[1]).index_add_(0, to, mail[torch.from_numpy(deliveries.event - whole.start)])
    latest = np.searchsorted(deliveries.to, np.arange(deliveries.nodes.size), side="right") - 1
    time = torch.from_numpy(events.t[deliveries.event[latest]]).double()
    mean = total / torch.bincount(to, minlength=len(nodes))[:, None]
    state.post(nodes, mean, time, torch.zeros(len(nodes), dtype=torch.bool))
