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
    """Return the policy for events out of order that the two options of a reader name. Raises UserError where both are given."""
    if sort and strict:
        raise UserError("sort and strict exclude each other: one sorts, the other refuses")
    return "sort" if sort else "refuse" if strict else "warn"


class EventOrder:
    """Order into which events belong by `time` [M]. places: int32 or int64 [M], stable, or None where they are in order. said: for the
    account.

    `where` puts file and line of an event before its words, `read` says after them what was taken for the time. Raises UserError where
    events are out of order and that is refused; warns, unless it is meant.
    """

    def __init__(self, time: NDArray[Any], order: OrderPolicy, row_error: Callable[[int, str], UserError], read: str = "") -> None:
        self.places: Int32 | Int64 | None = None
        self.said = ""
        count, first = count_falls(time)
        if not count:
            return
        message = f"time {time[first]} is before the {time[first - 1]} that precedes it{read}"
        if order == "refuse":
            raise row_error(first, f"{message}; without the option strict=true, events are sorted")
        self.said = f"sorted by time: {count:,} of {len(time):,} events came after a later one"
        if order == "warn":
            meant = "sort=true says that this is meant, strict=true refuses it"
            warnings.warn(f"{row_error(first, message)}; {self.said}; {meant}", ChronoscaleWarning, stacklevel=2)
        places = np.argsort(time, kind="stable")
        release(time)
        self.places = places.astype(np.int32) if len(places) < 2**31 else places

    @property
    def account(self) -> Account:
        """What is to be said, if anything."""
        return {"order": self.said} if self.said else {}

    def sort(self, column: Any) -> Any:
        """Sort a column [M, …], or none, in that order."""
        return column if column is None or self.places is None else take_rows(column, self.places)
