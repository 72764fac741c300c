"""Shares: what rows take of resources that they have in common with others, such as a device's memory or a link."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int32, UInt8
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints

UNIT = 2.0**-36  # shares are multiples of it, so that sums of up to 2^17 of them are exact


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """Of n rows, by row: entries ptr[i] to ptr[i + 1], each a resource and the share of its capacity that the row takes while it runs
    alone, 0 < share <= 1. In its first `delay_ns` a row takes nothing (a link's latency). `demand`: what it then does alone in a unit that
    all have in common (of rows that move bytes: bytes/s), more than 0. A collective's stand at its first row. `names`: of the resources,
    for reports. `crowd`: which rows native replays so far took to be in one another's way (not 0): each writes it, and begins with those.

    Where more is asked of a resource than there is, those that ask get equal parts of what they demand, or less where they need less or
    are held up elsewhere (max-min fairness: `sharing.speeds`); a row then takes longer, as much as it is slowed down.
    """

    ptr: Ints  # [n + 1]
    resource: Int32
    share: Floats
    delay_ns: Ints  # [n]
    demand: Floats  # [n]
    names: tuple[str, ...]
    crowd: UInt8  # [n]

    @classmethod
    def of(
        cls, row: Ints, resource: Int32, share: Floats, delay_ns: Ints, demand: Floats, streams: Int32, names: tuple[str, ...]
    ) -> Shares | None:
        """From entries [k] of rows, in any order, each at most once a resource; streams int32 [n]: of which FIFO a row is. None where no
        resource can be asked for more than it has: what one FIFO does, it does in turn."""
        kept = oversubscribed(streams[row], resource, share, len(names))
        return cls.by_row(row[kept], resource[kept], share[kept], delay_ns, demand, names)

    @classmethod
    def by_row(cls, row: Ints, resource: Int32, share: Floats, delay_ns: Ints, demand: Floats, names: tuple[str, ...]) -> Shares | None:
        """The same, of entries that are all kept."""
        if not len(row):
            return None
        order = np.argsort(row, kind="stable")
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(row, minlength=len(delay_ns)))])
        return cls(ptr, resource[order].astype(np.int32), _whole(share[order]), delay_ns, demand, names, np.zeros(len(delay_ns), np.uint8))

    def beside(self, other: Shares | None) -> Shares:
        """The same, to be replayed with the crowd of rows that are much like these, or of none."""
        return self if other is None else replace(self, crowd=other.crowd.copy())

    def take(self, ns: Ints) -> NDArray[np.bool_]:
        """Which rows, `ns` long, take any: bool [n]."""
        return (np.diff(self.ptr) > 0) & (self.delay_ns < ns)


def oversubscribed(stream: Int32, resource: Int32, share: Floats, resources: int) -> Ints:
    """Entries of resources that FIFOs together can ask for more of than there is, int64 [any]; `stream` int32 [k]: each entry's FIFO."""
    most = pd.Series(_whole(share)).groupby(stream.astype(np.int64) * resources + resource, sort=False).max()
    return np.flatnonzero((np.bincount(most.index.to_numpy() % resources, most.to_numpy(), resources) > 1)[resource])


def _whole(share: Floats) -> Floats:
    """In units."""
    return np.clip(np.rint(share / UNIT), 1, 1 / UNIT) * UNIT
