"""Source: events in order, and where the sampler finds those of a node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Int32, Numbers
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A stream and its T-CSR, of the same events under the same numbers."""

    stream: EventStream
    tcsr: TCSR

    def roots(self, part: range, others: Int32, before: int) -> tuple[Int32, Int32, Numbers]:
        """Roots of a batch: sources, destinations, and `others` [B, k] that each event is told from, event by event; the first event that
        they do not see; their times, those of their events. int32 [R], int32 [R], [R] with R = B (2 + k)."""
        span = slice(part.start, part.stop)
        others = others.reshape(len(part), -1)
        node = np.concatenate([self.stream.src[span], self.stream.dst[span], others.ravel()])
        t = np.asarray(self.stream.t[span])
        return node, np.full(node.size, before, np.int32), np.concatenate([t, t, np.repeat(t, others.shape[1])])
