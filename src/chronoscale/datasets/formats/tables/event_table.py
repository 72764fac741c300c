"""Event tables: the columns of text files of events, one file after another, read in blocks and kept on disk beyond a megabyte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.formats.tables.roles import Roles, column_places
from chronoscale.datasets.formats.tables.text_table import TableBlock, TextTable
from chronoscale.datasets.spool import BLOCK, Spool, map_rows
from chronoscale.errors import UserError

EXACT = 2**53  # integers that float64 holds
INTEGERS = {"src": "node id", "dst": "node id", "node": "node id", "id": "event id", "label": "label", "split": "part of the split"}
RowError = Callable[[int, str], UserError]
BELOW = ("label", "split")  # these may be


class EventTable:
    """Columns of the events in a dataset's text files, by role, read one file after another; on disk beyond a megabyte.

    columns["src"], ["dst"], ["node"] (ids of nodes), ["id"] (of the event), ["label"], ["split"]: int64 [M], each if `roles` has it.
    ["time"]: int64 [M] where every entry is an integer, else float64; the place in the files where no column holds it. ["features"]:
    float32 [M, D], of weights and features. Raises UserError, `file:line: what`, for ids, labels or parts of a split that are no integers,
    ids below `smallest_id`, and times that float64 would round.
    """

    def __init__(self, tables: Sequence[TextTable], roles: Roles, smallest_id: int = 0) -> None:
        self.tables, self.roles = tables, roles
        whole = {role: Spool(np.int64) for role in INTEGERS if role in roles}
        wide = column_places(roles, "weight", "feature")
        times, matrix = TimeColumn(), Spool(np.float32, (len(wide),))
        for table in tables:
            for part in table.blocks(skipped=[place for place, role in enumerate(roles) if role.startswith("_")]):
                for role, spool in whole.items():
                    smallest = None if role in BELOW else 0 if role == "id" else smallest_id
                    spool.append(_integer_column(part, roles.index(role), INTEGERS[role], smallest))
                if "time" in roles:
                    times.append(part.column(roles.index("time")), part.error)
                if wide:
                    matrix.append(part.matrix(wide))
        self.columns: dict[str, NDArray[Any]] = {role: spool.array() for role, spool in whole.items()}
        self.columns["time"] = times.array() if "time" in roles else np.arange(len(self), dtype=np.int64)
        if wide:
            self.columns["features"] = matrix.array()

    def __len__(self) -> int:
        return sum(table.rows for table in self.tables)

    def error(self, row: int, problem: str) -> UserError:
        """Return the error for an event of the table, with its file and line; row: counted from 0 over all files."""
        table, row = self._place(row)
        return table.error(row, problem)

    def line(self, row: int) -> int:
        """Return the number of an event's line in its file; row: the event, counted from 0 over all files."""
        table, row = self._place(row)
        return table.line(row)

    def require_distinct_ids(self, begin: int, end: int) -> None:
        """Check that no event id of the rows begin .. end - 1 stands twice. Raises UserError with the file and line of a repetition."""
        ids = self.columns["id"][begin:end]
        if are_consecutive(ids):
            return
        order = np.argsort(ids, kind="stable")
        repeats = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
        if repeats.size:
            place = int(np.argmin(order[repeats + 1]))
            first, second = int(order[repeats[place]]), int(order[repeats[place] + 1])
            raise self.error(begin + second, f"event id {ids[second]} stands twice, first in line {self.line(begin + first)}")

    def _place(self, row: int) -> tuple[TextTable, int]:
        ends = np.cumsum([table.rows for table in self.tables])
        at = int(np.searchsorted(ends, row, side="right"))
        return self.tables[at], row - int(ends[at]) + self.tables[at].rows

    @property
    def timed(self) -> str:
        """Clause for the end of an error message that says which column was read as the time; '' where none was."""
        return f"; field {self.roles.index('time') + 1} is read as the time" if "time" in self.roles else ""


class TimeColumn:
    """Column of times of a dataset's events, which grows block by block: int64 until the first entry with a fraction, from then on
    float64."""

    def __init__(self) -> None:
        self._spool = Spool(np.int64)
        self._wide: tuple[RowError, int] | None = None  # the first that float64 would round

    def append(self, times: NDArray[Any], error: RowError) -> None:
        """Append the times of a block of events, int64 or float64 [n]. error(row, problem): makes the error for a row of the block. Raises
        that where integers and fractions are mixed and float64 would round an integer."""
        if times.dtype.kind == "i" and self._wide is None and (wide := np.abs(times) > EXACT).any():
            self._wide = error, int(np.argmax(wide))
        if self._wide is not None and "f" in (times.dtype.kind, self._spool.dtype.kind):
            raise self._wide[0](self._wide[1], "a time beyond 2**53, and other times have fractions")
        if times.dtype.kind == "f" and self._spool.dtype.kind == "i":
            exact, self._spool = self._spool.array(), Spool(np.float64)
            for begin in range(0, len(exact), BLOCK):
                self._spool.append(exact[begin : begin + BLOCK].astype(np.float64))
        self._spool.append(times)

    def array(self) -> NDArray[Any]:
        """Return all times so far, int64 or float64 [M]."""
        return self._spool.array()


def _integer_column(part: TableBlock, place: int, meaning: str, smallest: int | None) -> Int64:
    numbers = part.column(place)
    if numbers.dtype != np.int64:
        if (wrong := (numbers != np.floor(numbers)) | (np.abs(numbers) >= EXACT)).any():
            row = int(np.argmax(wrong))
            raise part.error(row, f"expected an integer {meaning}, found {numbers[row]}")
        numbers = numbers.astype(np.int64)
    if smallest is not None and numbers.size and numbers.min() < smallest:
        row = int(np.argmax(numbers < smallest))
        raise part.error(row, f"{meaning} {numbers[row]} is below {smallest}")
    return numbers


def compact_ids(*ends: Int64) -> tuple[list[NDArray[np.int32]], Int64]:
    """Renumber the node ids of a dataset's file as 0 .. N - 1: return, for each array of ids, its new ids, int32, and the distinct old ids,
    int64 [N] ascending, so that old = distinct[new]. Ids that are dense are looked up in a table, others are sorted."""
    top, size = max(int(ids.max(initial=0)) for ids in ends), sum(ids.size for ids in ends)
    if top < 4 * size + 1024:
        occurs = np.zeros(top + 1, dtype=np.bool_)
        for ids in ends:
            for begin in range(0, ids.size, BLOCK):
                occurs[ids[begin : begin + BLOCK]] = True
        distinct = np.flatnonzero(occurs).astype(np.int64)
        rank = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
        return [map_rows(ids, lambda block: rank[block], np.int32) for ids in ends], distinct
    distinct = np.empty(0, np.int64)
    for ids in ends:
        for begin in range(0, ids.size, BLOCK):
            distinct = np.union1d(distinct, ids[begin : begin + BLOCK])
    return [map_rows(ids, lambda block: np.searchsorted(distinct, block), np.int32) for ids in ends], distinct


def are_consecutive(ids: Int64) -> bool:
    """Return whether ids, int64 [n], are 0, 1, 2, … n - 1 in this order."""
    return all(np.array_equal(ids[at : at + BLOCK], np.arange(at, min(at + BLOCK, len(ids)))) for at in range(0, len(ids), BLOCK))
