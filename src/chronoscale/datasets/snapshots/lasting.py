"""Lasting rows: how many rows of consecutive snapshots stay as they are, so that planners count what need be computed only once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from chronoscale.datasets.arrays import Bool, Int64, require
from chronoscale.errors import UserError

SPAN = 64  # snapshots: the longest run that is counted

Kind = Literal["weighted", "listed", "idle"]


@dataclass(frozen=True, slots=True, eq=False)
class LastingRows:
    """Counts of rows (nodes) that stay as they are in the snapshots t to t + k, int64 [T, SPAN] each; past the last snapshot as up to it.

    weighted: whose neighbours and weights (`delta_csr(variant="exact")`) do not change. listed: whose neighbours do not, whatever the
    weights. idle: which have no edge in any of them. Raises UserError for tables that do not fit one another, or rise with k.
    """

    weighted: Int64
    listed: Int64
    idle: Int64

    def __post_init__(self) -> None:
        for name in TABLES:
            table: Int64 = getattr(self, name)
            require(table, f"LastingRows.{name}", "int64", (len(self.weighted), SPAN))
            if (table < 0).any() or (np.diff(table) > 0).any():
                raise UserError(f"LastingRows.{name}: expected counts that fall with the number of snapshots")

    def count(self, kind: Kind, start: Int64, length: Int64 | int) -> Int64:
        """Return how many rows stay as they are in `length` snapshots from each of `start` on, int64 [n]; length: one for all, or int64
        [n]. Raises UserError below 1, and above `SPAN`."""
        if np.any(wrong := (np.asarray(length) < 1) | (np.asarray(length) > SPAN)):
            got = np.broadcast_to(length, wrong.shape)[wrong].flat[0]
            raise UserError(f"rows that last are counted for 1 to {SPAN} snapshots, got {got}")
        counts: Int64 = getattr(self, kind)[start, length - 1]
        return counts

    def scaled(self, factor: int) -> LastingRows:
        """Return every count times `factor`, of a larger graph that evolves alike."""
        return LastingRows(**{name: getattr(self, name) * factor for name in TABLES})

    def head(self, count: int) -> LastingRows:
        """Return the counts of the first `count` snapshots."""
        return LastingRows(**{name: _up_to_the_last(getattr(self, name)[:count]) for name in TABLES})


def _up_to_the_last(table: Int64) -> Int64:
    """Return a table of counts, int64 [T, SPAN], whose entries past the last snapshot are those up to it."""
    known = np.minimum(np.arange(SPAN)[None, :], len(table) - 1 - np.arange(len(table))[:, None])
    return np.take_along_axis(table, known, axis=1)


TABLES = tuple(f.name for f in fields(LastingRows))


class RunCounter:
    """Counter of rows that are spared something for a while, told of one snapshot after another.

    changes: it happens from the snapshot before to this one, so that a run's first snapshot does not count; else in the snapshot itself.
    """

    def __init__(self, rows: int, changes: bool) -> None:
        self._last = np.full(rows, -1, np.int64)
        self._least = 0 if changes else 1
        self._table: list[Int64] = []

    def add(self, hit: Bool) -> None:
        """Take the next snapshot, in which it happens to the rows `hit`, bool [rows]."""
        t = len(self._table)
        self._last[hit] = t
        self._table.append(np.zeros(SPAN, np.int64))
        ago = np.bincount(np.minimum(t - self._last, SPAN), minlength=SPAN + 1)
        longer = ago[::-1].cumsum()[::-1]  # rows that it last happened to k snapshots ago or more
        for k in range(min(SPAN, t + 1)):
            self._table[t - k][k] = longer[k + self._least]

    def table(self) -> Int64:
        """Return how many rows are spared it in the snapshots t to t + k, int64 [T, SPAN]; past the last snapshot as up to it."""
        return _up_to_the_last(np.array(self._table, np.int64).reshape(-1, SPAN))
