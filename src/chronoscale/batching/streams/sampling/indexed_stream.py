"""Indexed stream: events in order, and the T-CSR in which the sampler finds those of a node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from chronoscale.datasets.arrays import Int32, Numbers
from chronoscale.datasets.streams.event_numbers import EventNumbers, row_index
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True, eq=False)
class IndexedStream:
    """Event stream with its T-CSR (temporal CSR, in which the sampler finds a node's events), both with the same numbers of events.

    numbers int32 [M]: those that the events have in the whole stream, of which these are some; None: the same. Raises UserError where
    stream and T-CSR differ in size.
    """

    stream: EventStream
    tcsr: TCSR
    numbers: Int32 | None = None

    def __post_init__(self) -> None:
        has = (self.tcsr.num_nodes, self.tcsr.neighbor.size)
        most = 2 * len(self.stream)  # an event with itself is there once
        if has[0] != self.stream.num_nodes or not most // 2 <= has[1] <= most:
            raise UserError(
                f"T-CSR of {has[0]} nodes and {has[1]} entries for a stream of {self.stream.num_nodes} nodes and {most // 2} events; "
                "it is of another one"
            )

    def original(self, events: Int32) -> Int32:
        """Return the numbers in the whole stream of some of these events, int32; they ascend where these do."""
        return events if self.numbers is None else self.numbers[events]

    def numbered_here(self, events: Int32) -> Int32:
        """Return the numbers here of events of the whole stream that are here, too, int32: the inverse of `original`."""
        return events if self.numbers is None else np.searchsorted(self.numbers, events).astype(np.int32)

    def with_sent_events(self, folder: Path | None = None) -> IndexedStream:
        """Return the stream with a T-CSR in which a node has the events that it sends alone; made in the new folder `folder`, or mapped
        from there; None: in memory."""
        if folder is not None and folder.exists():
            return replace(self, tcsr=TCSR.load(folder))
        return replace(self, tcsr=TCSR.of(self.stream, both=False, folder=folder))

    def roots(self, part: EventNumbers, negatives: Int32, before: int, sources: bool = False) -> tuple[Int32, Int32, Numbers]:
        """Return the roots of a batch, for which neighbours are sampled: nodes int32 [R], the first event that each does not see (`before`)
        int32 [R], and their times [R], those of their events.

        They are the sources of the events `part`, their destinations (not with `sources`), and then `negatives` [B, k], event by event: R =
        B (2 + k), with `sources` B (1 + k).
        """
        span = row_index(part)
        negatives = negatives.reshape(len(part), -1)
        ends = [self.stream.src[span]] if sources else [self.stream.src[span], self.stream.dst[span]]
        node, t = np.concatenate([*ends, negatives.ravel()]), np.asarray(self.stream.t[span])
        return node, np.full(node.size, before, np.int32), np.concatenate([*[t] * len(ends), np.repeat(t, negatives.shape[1])])
