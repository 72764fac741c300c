"""Contributing: what a rank computes for memories and mailboxes, its own and others', and how those who have the rows settle it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.streams.contributions import Contributions
from chronoscale.datasets.streams.source import Source
from chronoscale.real_exec.streams.material import rows
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.spread.packing import Column, packed, unpacked
from chronoscale.real_exec.streams.state import NodeState
from chronoscale.strategies.streams.models import StreamShape


class Ends(NamedTuple):
    """Of events int64 [B], ascending: memory float32 [2, B, H] of sources and of destinations with their mails in it, and the time of it,
    float64 [2, B]; in the host's memory."""

    events: Int64
    memory: Tensor
    heard: Tensor


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
def computed(found: Contributions, rank: int, ends: Ends, source: Source, model: StreamModel) -> Computed:
    """A rank's contributions of an iteration, in their order, from the ends of its own events."""
    shape, own = model.shape, found.of(rank)
    last, mine = found.last[own], slice(int(np.searchsorted(found.to, own.start)), int(np.searchsorted(found.to, own.stop)))
    written = last >= 0
    memory, updated = torch.zeros(last.size, shape.memory), torch.zeros(last.size, dtype=torch.float64)
    at = np.searchsorted(ends.events, last[written])
    side = (~found.source[own][written]).astype(np.int64)
    memory[torch.from_numpy(written)] = ends.memory[side, at]
    updated[torch.from_numpy(written)] = ends.heard[side, at]
    to, event = torch.from_numpy(found.to[mine] - own.start), found.event[mine]
    at = np.searchsorted(ends.events, event)
    edge = rows(source.stream.features, event) if shape.edge else None
    first = np.zeros(event.size, np.int64)
    if not shape.neighbours:  # a mail a contribution, as the node sees the event
        first = (~found.source[own][to.numpy()]).astype(np.int64)
    mail = model.mail(ends.memory[first, at], ends.memory[1 - first, at], edge)
    total = mail.new_zeros(last.size, shape.mail).index_add_(0, to, mail)
    time = torch.full((last.size,), float("-inf"), dtype=torch.float64)
    time.scatter_reduce_(0, to, torch.from_numpy(np.array(source.stream.t[event])).double(), "amax")
    count = torch.bincount(to, minlength=last.size).int()
    sends = torch.from_numpy(found.source[own]) & (not shape.neighbours)
    return Computed(memory, updated, torch.from_numpy(written), total, count, time, sends)


@torch.no_grad()
def settle(state: NodeState, places: Tensor, given: Computed) -> None:
    """Write what several ranks have computed, in the order of ranks, for rows int64 [n] of the tables, repeated or not."""
    state.put(places[given.written], given.memory[given.written], given.updated[given.written])
    at, to = places.unique(return_inverse=True)
    if len(at) < len(places):
        mail = given.mail.new_zeros(len(at), given.mail.shape[1]).index_add_(0, to, given.mail)
        count = given.mails.new_zeros(len(at)).index_add_(0, to, given.mails)
        time = given.time.new_full((len(at),), float("-inf")).scatter_reduce_(0, to, given.time, "amax")
        sent = given.sent.new_zeros(len(at)).index_put_((to,), given.sent)
    else:
        at, mail, count, time, sent = places, given.mail, given.mails, given.time, given.sent
    there = count > 0
    state.post(at[there], mail[there] / count[there, None], time[there], sent[there])
