"""Shares: what rows take of resources that they have in common with others, such as a device's memory or a link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int32
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints

UNIT = 2.0**-36  # shares are multiples of it, so that sums of up to 2^17 of them are exact


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """Shares of resources (device memory, SMs, links) that the n tasks (rows) of a simulated schedule take.

    Entries ptr[i] to ptr[i + 1] are those of row i. An entry is a resource and the share of its capacity that the row takes while it runs
    alone, 0 < share <= 1. In its first `delay_ns` a row takes nothing (a link's latency). `demand`: what it then does alone, in a unit that
    all rows have in common (of rows that move bytes: bytes/s), more than 0. The entries of a collective stand at its first row. `names`: of
    the resources, for reports.

    Where a resource is overloaded, rows get equal parts of their demands, or less where they need less or another resource slows them
    (max-min fairness); a row then takes longer, as much as it is slowed down.
    """

    ptr: Ints  # [n + 1]
    resource: Int32
    share: Floats
    delay_ns: Ints  # [n]
    demand: Floats  # [n]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, row: Ints, resource: Int32, share: Floats, delay_ns: Ints, demand: Floats, streams: Int32, names: tuple[str, ...]
    ) -> Shares | None:
        """Make the shares of a simulated schedule from k entries (row, resource, share); None where no resource can be overloaded.

        Entries come in any order, at most one a row and resource. delay_ns, demand: of each row, [n]. streams: the FIFO of each row, int32
        [n]: rows of one FIFO run in turn. names: of the resources.
        """
        entries = oversubscribed(streams[row], resource, share, len(names))
        return cls.by_row(row[entries], resource[entries], share[entries], delay_ns, demand, names)

    @classmethod
    def by_row(cls, row: Ints, resource: Int32, share: Floats, delay_ns: Ints, demand: Floats, names: tuple[str, ...]) -> Shares | None:
        """Make the shares of a simulated schedule from all entries, also of resources that cannot be overloaded.

        None where there are no entries.
        """
        if not len(row):
            return None
        order = np.argsort(row, kind="stable")
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(row, minlength=len(delay_ns)))])
        return cls(ptr, resource[order].astype(np.int32), _quantised(share[order]), delay_ns, demand, names)

    def take(self, ns: Ints) -> NDArray[np.bool_]:
        """Return which tasks (rows) take any shared resource, bool [n]. ns: what they take alone, int64 [n]."""
        return (np.diff(self.ptr) > 0) & (self.delay_ns < ns)


def oversubscribed(stream: Int32, resource: Int32, share: Floats, resources: int) -> Ints:
    """Return the entries (of k) whose resource can be overloaded in the simulation, when streams ask for it at once; int64 [any].

    stream: each entry's FIFO, int32 [k]; resource, share: of each entry, [k]. resources: how many there are.
    """
    most = pd.Series(_quantised(share)).groupby(stream.astype(np.int64) * resources + resource, sort=False).max()
    return np.flatnonzero((np.bincount(most.index.to_numpy() % resources, most.to_numpy(), resources) > 1)[resource])


def _quantised(share: Floats) -> Floats:
    """Round shares to multiples of UNIT, at least one of them."""
    return np.clip(np.rint(share / UNIT), 1, 1 / UNIT) * UNIT
