"""Contributing: what a rank computes for memories and mailboxes, its own and others', and how those who have the rows settle it."""

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
from chronoscale.real_exec.streams.spread.packing import Column, packed, unpacked
from chronoscale.real_exec.streams.state import NodeState
from chronoscale.strategies.streams.models import StreamShape


class Prospect(NamedTuple):
    """What a rank is about to contribute in an iteration, known before its memory is.

    found: contributions of all ranks; rank: whose batches these are. Of its own n, `written` bool [n]: those that write memory, and end,
    place int64 [w] of each: 0 for a source, 1 for a destination, and its event's place in the batch. to int64 [D]: the contribution of each
    mail, first int64 [D]: the end that it is made for, at int64 [D]: its event's place; edge float32 [D, De] or None. time float64 [n] of
    the latest mail, mails int32 [n], sent bool [n]: the node sent it.
    """

    found: Contributions
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
        """Where the rows of its own contributions are."""
        return self.found.home[self.found.of(self.rank)]

    @classmethod
    def of(cls, found: Contributions, rank: int, events: Int64, source: IndexedStream, shape: StreamShape) -> Prospect:
        """Of a rank with these events, ascending, int64 [B]."""
        own = found.of(rank)
        last, sends = found.last[own], found.source[own]
        mine = slice(int(np.searchsorted(found.to, own.start)), int(np.searchsorted(found.to, own.stop)))
        written = last >= 0
        to, event = torch.from_numpy(found.to[mine] - own.start), found.event[mine]
        # A mail to neighbours is alike for all; else a node has one, of the event that it is written after.
        first = np.zeros(event.size, np.int64) if shape.neighbours else (~sends[found.to[mine] - own.start]).astype(np.int64)
        time = torch.full((last.size,), float("-inf"), dtype=torch.float64)
        time.scatter_reduce_(0, to, torch.from_numpy(np.array(source.stream.t[event])).double(), "amax")
        return cls(
            found, rank, torch.from_numpy(written), torch.from_numpy((~sends[written]).astype(np.int64)),
            torch.from_numpy(np.searchsorted(events, last[written])), to, torch.from_numpy(first),
            torch.from_numpy(np.searchsorted(events, event)), rows(source.stream.features, event) if shape.edge else None, time,
            torch.bincount(to, minlength=last.size).int(), torch.from_numpy(sends) & (not shape.neighbours),
        )  # fmt: skip


class Computed(NamedTuple):
    """Contributions [n], in the host's memory: memory float32 [n, H] and its time float64 [n], where it is `written`, bool [n]; the sum
    float32 [n, W] of `mails` int32 [n] of them, the time float64 [n] of the latest, and `sent` bool [n]: the node sent its event."""

    memory: Tensor
    updated: Tensor
    written: Tensor
    mail: Tensor
    mails: Tensor
    time: Tensor
    sent: Tensor

    def packed(self) -> Tensor:
        """As bytes, uint8 [n, W]."""
        return packed(self)

    def part(self, at: slice | Tensor) -> Computed:
        """Some of them."""
        return Computed(*(column[at] for column in self))

    @classmethod
    def joined(cls, parts: Sequence[Computed]) -> Computed:
        """One after another."""
        return cls(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    @classmethod
    def columns(cls, shape: StreamShape) -> list[Column]:
        """Of `packed`."""
        floats, times, flags = torch.float32, Column(torch.float64), Column(torch.bool)
        return [Column(floats, (shape.memory,)), times, flags, Column(floats, (shape.mail,)), Column(torch.int32), times, flags]

    @classmethod
    def unpacked(cls, packed: Tensor, shape: StreamShape) -> Computed:
        """What `packed` gave."""
        return cls(*unpacked(packed, cls.columns(shape)))


@torch.no_grad()
def computed(one: Prospect, memory: Tensor, heard: Tensor, model: StreamModel) -> Computed:
    """A rank's contributions, from memory float32 [2, B, H] of its events' sources and of their destinations with their mails in it, and
    the time of it, float64 [2, B]; in the host's memory."""
    count, shape = len(one.written), model.shape
    state, updated = torch.zeros(count, shape.memory), torch.zeros(count, dtype=torch.float64)
    state[one.written], updated[one.written] = memory[one.end, one.place], heard[one.end, one.place]
    mail = model.mail(memory[one.first, one.at], memory[1 - one.first, one.at], one.edge)
    if shape.neighbours:
        mail = mail.new_zeros(count, shape.mail).index_add_(0, one.to, mail)
    return Computed(state, updated, one.written, mail, one.mails, one.time, one.sent)


@torch.no_grad()
def settle(state: NodeState, places: Tensor, given: Computed, repeated: bool) -> None:
    """Write what ranks have computed, in their order, for rows int64 [n] of the tables. repeated: several may have mails for one row
    (APAN); else each has one contribution, a memory and a mail."""
    if not repeated:
        state.put(places, given.memory, given.updated)
        state.post(places, given.mail, given.time, given.sent)
        return
    state.put(places[given.written], given.memory[given.written], given.updated[given.written])
    at, to = places.unique(return_inverse=True)
    mail = given.mail.new_zeros(len(at), given.mail.shape[1]).index_add_(0, to, given.mail)
    mails = given.mails.new_zeros(len(at)).index_add_(0, to, given.mails)
    time = given.time.new_full((len(at),), float("-inf")).scatter_reduce_(0, to, given.time, "amax")
    state.post(at, mail / mails[:, None], time, torch.zeros(len(at), dtype=torch.bool))
