"""Cache whose rows change from batch to batch, by what later batches of the epoch will ask for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chronoscale.datasets.arrays import Int32, Int64

NEVER = np.iinfo(np.int32).max


class RetainedRows:
    """Cache of feature rows on a device that changes from batch to batch, with the fewest misses of any policy, as later batches are known.

    Known are the different rows of every batch of an epoch, each int32 [U], of a table of `rows`; the cache has `room` slots. After each
    batch those rows stay whose next use is soonest: as all rows have one size, no other choice has more hits (Belady, 1966; here a missed
    row may be left out of the cache). SIMPLE (Gao et al., SIGMOD 2024) weighs the same intervals of retention. slots int64 [rows]: the slot
    of each row now, -1 for none. O(different rows + room) a batch.
    """

    def __init__(self, batches: Sequence[Int32], rows: int, room: int) -> None:
        self.slots: Int64 = np.full(rows, -1, np.int64)
        self._room = room
        self._batches = batches
        self._at = 0
        self._held: Int32 = np.full(room, -1, np.int32)  # the row in each slot
        self._next: Int32 = np.full(rows, NEVER, np.int32)  # the batch of a row's next use
        self._then: list[Int32] = []  # of each batch's rows, the next use behind it; the last batch first
        for number in range(len(batches) - 1, -1, -1):
            self._then.append(self._next[batches[number]])
            self._next[batches[number]] = number

    def next(self) -> tuple[Int32, Int64]:
        """Advance the cache past the next batch: return the rows int32 [R] that enter it, and the slots int64 [R] that they get."""
        read, next_use = self._batches[self._at], self._then.pop()
        self._at += 1
        self._next[read] = next_use
        retained, new = self._held[self._held >= 0], read[(self.slots[read] < 0) & (next_use < NEVER)]
        needed = self._next[np.concatenate([retained, new])]
        staying = needed < NEVER
        if np.count_nonzero(staying) > self._room:
            staying[np.argpartition(needed, self._room)[self._room :]] = False
        leaving, arriving = retained[~staying[: retained.size]], new[staying[retained.size :]]
        self._held[self.slots[leaving]] = -1
        self.slots[leaving] = -1
        slot = np.flatnonzero(self._held < 0)[: arriving.size]
        self._held[slot], self.slots[arriving] = arriving, slot
        return arriving, slot
