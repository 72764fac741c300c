"""Order of events: those that a file does not have in the order of time are sorted with a notice, without one, or refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.account import Account
from chronoscale.datasets.arrays import Int32, Int64, count_falls, release
from chronoscale.datasets.spool import take_rows
from chronoscale.errors import ChronoscaleWarning, UserError

Sort = Annotated[bool, "bring events into the order of time without a notice"]
Strict = Annotated[bool, "refuse events that are not in the order of time"]
OrderPolicy = Literal["warn", "sort", "refuse"]


def order_policy(sort: bool, strict: bool) -> OrderPolicy:
    """Translate the options `sort` and `strict` of a dataset reader into what it does with events that a file does not have in the order of
    time: sort them, refuse the file, or (neither is given) sort with a warning. Raises UserError where both are given."""
    if sort and strict:
        raise UserError("sort and strict exclude each other: one sorts, the other refuses")
    return "sort" if sort else "refuse" if strict else "warn"


class EventOrder:
    """Order of time into which a dataset reader brings the events of a file, from their times [M] as they stand there.

    places: the index in the file of each event in order, int32 or int64 [M], stable; None where they are in order already. summary: a
    sentence on how many were not. row_error(index, problem): makes the error or warning for an event, with its file and line; `read`: text
    after it that says which column was read as the time. Raises UserError where events are out of order and the policy is "refuse"; warns
    where it is "warn".
    """

    def __init__(self, time: NDArray[Any], order: OrderPolicy, row_error: Callable[[int, str], UserError], read: str = "") -> None:
        self.places: Int32 | Int64 | None = None
        self.summary = ""
        count, first = count_falls(time)
        if not count:
            return
        message = f"time {time[first]} is before the {time[first - 1]} that precedes it{read}"
        if order == "refuse":
            raise row_error(first, f"{message}; without the option strict=true, events are sorted")
        self.summary = f"sorted by time: {count:,} of {len(time):,} events came after a later one"
        if order == "warn":
            meant = "sort=true says that this is meant, strict=true refuses it"
            warnings.warn(f"{row_error(first, message)}; {self.summary}; {meant}", ChronoscaleWarning, stacklevel=2)
        places = np.argsort(time, kind="stable")
        release(time)
        self.places = places.astype(np.int32) if len(places) < 2**31 else places

    @property
    def account(self) -> Account:
        """Entry for the account of a reading (what became of a file, for people) on how events were sorted; empty where they were in
        order."""
        return {"order": self.summary} if self.summary else {}

    def sort(self, column: Any) -> Any:
        """Bring a column of a file's events, [M, …], into the order of time; None stays None."""
        return column if column is None or self.places is None else take_rows(column, self.places)
