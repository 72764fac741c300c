"""Counts of a stream's events by what they have in common, such as a pair of nodes or a destination; fading with age, too."""

from __future__ import annotations

import math

import numpy as np

from chronoscale.datasets.arrays import Float64, Int64

DIGITS = 9  # of a logarithm: what differs less is equal, but for the order in which it was summed up
SPAN = 500  # half-lives that are summed up together: float64 holds what grows by 2 ** 1000


class EventIndex:
    """Index of a stream's events by a key each, by which those of a key are counted among the first `known` events, or among later ones of
    them. Memory: some 16 bytes an event. Events are numbered below 2^31, and so are different keys."""

    def __init__(self, keys: Int64, event: Int64 | None = None) -> None:
        """keys int64 [K], not negative; event int64 [K]: the number of the event that each belongs to, None: 0 .. K - 1."""
        self._keys, place = np.unique(keys, return_inverse=True)
        self._entries = (place.astype(np.int64) << 32) | (np.arange(keys.size) if event is None else event)
        self._entries.sort()
        self._starts = np.searchsorted(self._entries, np.arange(self._keys.size, dtype=np.int64) << 32)

    def entries_before(self, keys: Int64, event: Int64) -> tuple[Int64, Int64]:
        """Return, for each of `keys` [Q], the number of entries of smaller keys and of this key's before event `event` [Q], and of smaller
        keys alone: int64 [Q] each, equal for a key that no event has."""
        if not self._keys.size:
            return np.zeros(keys.size, np.int64), np.zeros(keys.size, np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        smaller = self._starts[place]
        entries = smaller.copy()
        own = self._keys[place] == keys
        entries[own] = np.searchsorted(self._entries, (place[own] << 32) | event[own])
        return entries, smaller

    def count(self, keys: Int64, known: Int64, since: Int64 | None = None) -> Int64:
        """Count the events of each of `keys` [Q] among the first known[Q] events, int64 [Q]; from event since[Q] on, where it is given."""
        last, first = self.entries_before(keys, known)
        return last - first if since is None else np.maximum(last - self.entries_before(keys, since)[0], 0)

    def newest(self, keys: Int64, known: Int64) -> Int64:
        """Return the newest event of each of `keys` [Q] among the first known[Q] events, int64 [Q]; -1 where there is none."""
        last, first = self.entries_before(keys, known)
        return np.where(last > first, self.events[last - 1], -1) if self._entries.size else np.full(keys.size, -1, np.int64)

    @property
    def places(self) -> Int64:
        """Number of each entry's key among the different keys, int64 [K], ascending."""
        return self._entries >> 32

    @property
    def events(self) -> Int64:
        """Number of each entry's event, int64 [K], ascending within a key."""
        return self._entries & 0xFFFFFFFF


class FadingCounts:
    """Counts of a stream's events by a key each, in which an event counts half as much after every `half_life` on a clock, such as the
    number of events: the sum over a key's events of 0.5 ** (age / half_life). Logarithms are returned, so that none is too small. An event
    may be left out where a later one of its key came SPAN half-lives after it."""

    def __init__(self, index: EventIndex, clock: Int64, half_life: float) -> None:
        """index: of the events by key. clock int64 [M]: when each event happens, ascending; half_life: of its unit, infinite: none fade."""
        self._index, self._clock, self._rate = index, clock, 1 / half_life
        self._length = SPAN * half_life
        at = clock[index.events]
        self._spans = np.zeros(len(at), np.int64) if math.isinf(half_life) else (at // self._length).astype(np.int64)
        grown = np.exp2((at - self._begin(self._spans)) * self._rate)  # as if each span's beginning were now
        self._logs = np.log2(sums_within(grown, index.places, self._spans)) + self._begin(self._spans) * self._rate

    def weigh(self, keys: Int64, known: Int64) -> Float64:
        """Return log2 of the faded count of each of `keys` [Q] among the first known[Q] events, at one unit of the clock after the last of
        them: float64 [Q], -inf where there is none."""
        last, first = self._index.entries_before(keys, known)
        if not self._logs.size:
            return np.full(keys.size, -np.inf)
        span = self._spans[np.maximum(last - 1, 0)]
        earlier, _ = self._index.entries_before(keys, np.searchsorted(self._clock, self._begin(span)))  # entries of the spans before
        newest, before = (np.where(end > first, self._logs[np.maximum(end - 1, 0)], -np.inf) for end in (last, earlier))
        now = self._clock[np.maximum(known - 1, 0)] + 1
        logs: Float64 = np.logaddexp2(newest, np.where(earlier < last, before, -np.inf)) - now * self._rate
        return logs.round(DIGITS)

    def _begin(self, span: Int64) -> Float64:
        """Return where spans of SPAN half-lives begin on the clock."""
        return span.astype(np.float64) * (0.0 if math.isinf(self._length) else self._length)


def sums_within(values: Float64, *groups: Int64) -> Float64:
    """Return the sum of each value [K] and of those before it in its group, float64 [K]. groups: int64 [K] each, of which neighbours that
    are alike in all are of one group."""
    changes = np.any([np.diff(group, prepend=-1) != 0 for group in groups], axis=0)
    places = np.arange(len(values))
    within = places - np.maximum.accumulate(np.where(changes, places, 0))
    sums, step = values.copy(), 1  # of up to `step` values each
    while (further := np.flatnonzero(within >= step)).size:
        sums[further] += sums[further - step]
        step *= 2
    return sums
