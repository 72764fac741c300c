"""Complements of sets of numbers: the n-th number that a set leaves out, for many sets at once."""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.arrays import Int64


class Gaps:
    """Complements of S sets of numbers: the numbers from 0 on that a set leaves out, found without listing them. For evaluation's
    negatives, of which an event's own destinations are left out.

    segment, number int64 [X], ascending by both, without duplicates: which set a member is of, and the member. ptr int64 [S + 1]: where a
    set's members begin; counts int64 [S]: how many there are. Memory: 16 bytes a member.
    """

    def __init__(self, segment: Int64, number: Int64, segments: int) -> None:
        self.number = number
        self.counts = np.bincount(segment, minlength=segments)
        self.ptr = np.concatenate([[0], np.cumsum(self.counts)])
        # Below member j of a set are `number - j` numbers that are not in it; these ascend as the members do.
        self._below = (segment << 32) | (number - (np.arange(segment.size) - self.ptr[segment]))

    def nth(self, segment: Int64, rank: Int64) -> Int64:
        """Return the number that set `segment` leaves out and that has `rank` left-out numbers before it, for many sets and ranks at once:
        int64, the shape that both broadcast to."""
        number: Int64 = rank + np.searchsorted(self._below, (segment << 32) | rank, side="right") - self.ptr[segment]
        return number

    def find(self, segment: Int64, number: Int64) -> tuple[Int64, Int64]:
        """Look numbers up in sets, int64 [Q] both: return (place, rank), int64 [Q] each. place: where in its set a member is, -1 for
        others; rank: how many numbers that the set leaves out come before it."""
        keys = (np.repeat(np.arange(self.counts.size), self.counts) << 32) | self.number
        at = np.searchsorted(keys, (segment << 32) | number)
        before = at - self.ptr[segment]
        member = np.zeros(at.size, np.bool_)
        inside = at < self.ptr[segment + 1]
        member[inside] = self.number[at[inside]] == number[inside]
        return np.where(member, before, -1), number - before
