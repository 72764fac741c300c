"""Gathered: the columns of tables of events, one table after another, read in blocks and kept on disk beyond a megabyte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Float32, Int64
from chronoscale.datasets.formats.columns import Columns, Table
from chronoscale.datasets.formats.roles import Roles, places
from chronoscale.datasets.spool import Spool, changed
from chronoscale.errors import UserError

EXACT = 2**53  # integers that float64 holds


class Gathered:
    """sources, targets int64 [M], ids of the source; time int64 [M] where every entry is an integer, else float64, and the place in the
    files where no column holds it; labels int64 [M], features float32 [M, D], ids (of events) and split int64 [M], or None.

    Raises UserError, `file:line: what`, for ids, labels or parts of a split that are no integers, ids below `smallest_id`, and times that
    float64 would round.
    """

    def __init__(self, tables: Sequence[Table], roles: Roles, smallest_id: int = 0) -> None:
        self.tables, self.roles = tables, roles
        whole = {role: Spool(np.int64) for role in ("src", "dst", "label", "id", "split") if role in roles}
        smallest = {"src": ("node id", smallest_id), "dst": ("node id", smallest_id), "id": ("event id", 0)}
        times = _Times()
        wide = places(roles, "weight", "feature")
        matrix = Spool(np.float32, (len(wide),))
        for table in tables:
            for part in table.parts():
                for role, spool in whole.items():
                    what, least = smallest.get(role, (role, None))
                    spool.append(_integers(part, roles.index(role), what, least))
                if "time" in roles:
                    times.append(part, part.column(roles.index("time")))
                if wide:
                    matrix.append(part.matrix(wide))
        columns: dict[str, Int64] = {role: spool.array() for role, spool in whole.items()}
        self.sources, self.targets = columns["src"], columns["dst"]
        self.time: NDArray[Any] = times.array() if "time" in roles else np.arange(self.sources.size, dtype=np.int64)
        self.labels, self.ids, self.split = columns.get("label"), columns.get("id"), columns.get("split")
        self.features: Float32 | None = matrix.array() if wide else None

    def error(self, row: int, what: str) -> UserError:
        """The error at `row` of all files together, with file and line."""
        ends = np.cumsum([table.rows for table in self.tables])
        at = int(np.searchsorted(ends, row, side="right"))
        return self.tables[at].error(row - int(ends[at]) + self.tables[at].rows, what)

    def line(self, row: int) -> int:
        """The line of `row` of the only file."""
        return self.tables[0].line(row)


class _Times:
    """Integers until the first entry with a fraction, from then on float64."""

    def __init__(self) -> None:
        self._spool = Spool(np.int64)
        self._wide: tuple[Columns, int] | None = None  # the first that float64 would round

    def append(self, part: Columns, times: NDArray[Any]) -> None:
        if times.dtype.kind == "i" and self._wide is None and (wide := np.abs(times) > EXACT).any():
            self._wide = part, int(np.argmax(wide))
        if self._wide is not None and "f" in (times.dtype.kind, self._spool.dtype.kind):
            raise self._wide[0].error(self._wide[1], "a time beyond 2**53, and other times have fractions")
        if times.dtype.kind == "f" and self._spool.dtype.kind == "i":
            exact, self._spool = self._spool.array(), Spool(np.float64)
            for begin in range(0, len(exact), 1 << 16):
                self._spool.append(exact[begin : begin + (1 << 16)].astype(np.float64))
        self._spool.append(times)

    def array(self) -> NDArray[Any]:
        return self._spool.array()


def _integers(part: Columns, place: int, what: str, smallest: int | None) -> Int64:
    numbers = part.column(place)
    if numbers.dtype != np.int64:
        if (wrong := (numbers != np.floor(numbers)) | (np.abs(numbers) >= EXACT)).any():
            row = int(np.argmax(wrong))
            raise part.error(row, f"expected an integer {what}, found {numbers[row]}")
        numbers = numbers.astype(np.int64)
    if smallest is not None and numbers.size and numbers.min() < smallest:
        row = int(np.argmax(numbers < smallest))
        raise part.error(row, f"{what} {numbers[row]} is below {smallest}")
    return numbers


def compact(*ends: Int64) -> tuple[list[NDArray[np.int32]], Int64]:
    """(positions int32 of each, distinct ids int64 ascending): ids = distinct[positions]. A table where ids are dense, else a sort.

    Raises UserError for more distinct ids than int32 can name.
    """
    top, size = max(int(ids.max(initial=0)) for ids in ends), sum(ids.size for ids in ends)
    if top < 4 * size + 1024:
        seen = np.zeros(top + 1, dtype=np.bool_)
        for ids in ends:
            for begin in range(0, ids.size, 1 << 16):
                seen[ids[begin : begin + (1 << 16)]] = True
        distinct = np.flatnonzero(seen).astype(np.int64)
        rank = np.cumsum(seen, dtype=np.int32) - np.int32(1)
        return [changed(ids, lambda block: rank[block], np.int32) for ids in ends], distinct
    distinct = np.empty(0, np.int64)
    for ids in ends:
        for begin in range(0, ids.size, 1 << 16):
            distinct = np.union1d(distinct, ids[begin : begin + (1 << 16)])
    return [changed(ids, lambda block: np.searchsorted(distinct, block), np.int32) for ids in ends], distinct
