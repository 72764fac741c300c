"""Contributions: what a rank computes for memories and mailboxes, its own and others', and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.ranks.contributions import Contributions
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.datasets.arrays import Int64
from chronoscale.real_exec.streams.material import rows
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.spread.packing import Column, pack, unpack
from chronoscale.real_exec.streams.state import NodeState
from chronoscale.strategies.streams.models import StreamShape


class ContributionPlan(NamedTuple):
    """Plan of what one rank's events will write to node memory and mailboxes on any rank (its contributions) in an iteration.

    It is known before memory is computed. contributions: of all ranks of a group; rank: whose batches these are, by its part. Of its own n:
    written bool [n]: those that write memory; end, place int64 [w] of each of these: 0 for a source, 1 for a destination, and its event's
    place in the batch. to int64 [D]: the contribution of each message; first int64 [D]: the end that it is made for; at int64 [D]: its
    event's place; edge float32 [D, De] or None. time float64 [n] of the latest message; mails int32 [n]: how many; sent bool [n]: the node
    was the source.
    """

    contributions: Contributions
    rank: int
    written: Tensor
    end: Tensor
    place: Tensor
    to: Tensor
    first: Tensor
    at: Tensor
    edge: Tensor | None
    time: Tensor
    mails: Tensor
    sent: Tensor

    @property
    def home(self) -> Int64:
        """Return the rank that holds the node of each of this rank's contributions; -1 (`SHARED`) for nodes that all ranks have."""
        return self.contributions.home[self.contributions.of(self.rank)]

    @classmethod
    def of(cls, contributions: Contributions, rank: int, events: Int64, source: IndexedStream, shape: StreamShape) -> ContributionPlan:
        """Plan what a rank's events, ascending int64 [B], will write to node memory. contributions: of all ranks in the iteration."""
        own = contributions.of(rank)
        last, sends = contributions.last[own], contributions.source[own]
        mine = slice(int(np.searchsorted(contributions.to, own.start)), int(np.searchsorted(contributions.to, own.stop)))
        written = last >= 0
        to, event = torch.from_numpy(contributions.to[mine] - own.start), contributions.event[mine]
        # A mail to neighbours is alike for all; else a node has one, of the event that it is written after.
        first = np.zeros(event.size, np.int64) if shape.neighbours else (~sends[contributions.to[mine] - own.start]).astype(np.int64)
        time = torch.full((last.size,), float("-inf"), dtype=torch.float64)
        time.scatter_reduce_(0, to, torch.from_numpy(np.array(source.stream.t[event])).double(), "amax")
        return cls(
            contributions, rank, torch.from_numpy(written), torch.from_numpy((~sends[written]).astype(np.int64)),
            torch.from_numpy(np.searchsorted(events, last[written])), to, torch.from_numpy(first),
            torch.from_numpy(np.searchsorted(events, event)), rows(source.stream.features, event) if shape.edge else None, time,
            torch.bincount(to, minlength=last.size).int(), torch.from_numpy(sends) & (not shape.neighbours),
        )  # fmt: skip


class ComputedContributions(NamedTuple):
    """What one rank's events write to node memory and mailboxes in an iteration, computed, in host memory: n nodes.

    memory float32 [n, H] and its time `updated` float64 [n], where it is `written`, bool [n]; mail: the sum float32 [n, W] of `mails` int32
    [n] messages; time float64 [n]: of the latest; sent bool [n]: the node was the source of its event.
    """

    memory: Tensor
    updated: Tensor
    written: Tensor
    mail: Tensor
    mails: Tensor
    time: Tensor
    sent: Tensor

    def pack(self) -> Tensor:
        """Return the contributions to node memory as bytes, uint8 [n, W], to be sent to other ranks."""
        return pack(self)

    def part(self, at: slice | Tensor) -> ComputedContributions:
        """Return some of the contributions to node memory, those at these places."""
        return ComputedContributions(*(column[at] for column in self))

    @classmethod
    def concatenate(cls, parts: Sequence[ComputedContributions]) -> ComputedContributions:
        """Join contributions to node memory, one part after another."""
        return cls(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    @classmethod
    def columns(cls, shape: StreamShape) -> list[Column]:
        """Return the columns of contributions to node memory that ranks send each other (`pack`)."""
        floats = torch.float32
        times = Column(torch.float64)
        flags = Column(torch.bool)
        return [Column(floats, (shape.memory,)), times, flags, Column(floats, (shape.mail,)), Column(torch.int32), times, flags]

    @classmethod
    def unpack(cls, packed: Tensor, shape: StreamShape) -> ComputedContributions:
        """Unpack contributions to node memory that another rank has packed (`pack`), uint8 [n, W]."""
        return cls(*unpack(packed, cls.columns(shape)))


@torch.no_grad()
def compute(plan: ContributionPlan, memory: Tensor, times: Tensor, model: StreamModel) -> ComputedContributions:
    """Compute what a rank's events write to node memory and mailboxes, in host memory.

    memory float32 [2, B, H]: of its events' sources and of their destinations, messages applied; times float64 [2, B]: of that memory.
    """
    count, shape = len(plan.written), model.shape
    state, updated = torch.zeros(count, shape.memory), torch.zeros(count, dtype=torch.float64)
    state[plan.written], updated[plan.written] = memory[plan.end, plan.place], times[plan.end, plan.place]
    mail = model.mail(memory[plan.first, plan.at], memory[1 - plan.first, plan.at], plan.edge)
    if shape.neighbours:
        mail = mail.new_zeros(count, shape.mail).index_add_(0, plan.to, mail)
    return ComputedContributions(state, updated, plan.written, mail, plan.mails, plan.time, plan.sent)


@torch.no_grad()
def write_contributions(state: NodeState, places: Tensor, computed: ComputedContributions, repeated: bool) -> None:
    """Write what ranks' events contribute to node memory and mailboxes, in the order of ranks, to the tables of this rank.

    places: their rows, int64 [n].

    repeated: several may have messages for one row (APAN); else each row has one contribution, a memory and a message.
    """
    if not repeated:
        state.put(places, computed.memory, computed.updated)
        state.post(places, computed.mail, computed.time, computed.sent)
        return
    state.put(places[computed.written], computed.memory[computed.written], computed.updated[computed.written])
    at, to = places.unique(return_inverse=True)
    mail = computed.mail.new_zeros(len(at), computed.mail.shape[1]).index_add_(0, to, computed.mail)
    mails = computed.mails.new_zeros(len(at)).index_add_(0, to, computed.mails)
    time = computed.time.new_full((len(at),), float("-inf")).scatter_reduce_(0, to, computed.time, "amax")
    state.post(at, mail / mails[:, None], time, torch.zeros(len(at), dtype=torch.bool))
