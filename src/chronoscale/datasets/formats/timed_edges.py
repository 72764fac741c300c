"""What the text formats of event streams share: columns of ids and times, checked and compacted into an EventStream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.account import Account, shortened
from chronoscale.datasets.arrays import MAX_NODES, Int32, Int64
from chronoscale.datasets.formats.columns import Columns
from chronoscale.datasets.formats.roles import Roles, dropped, places
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

Paths = str | Path | Sequence[str | Path]
EXACT = 2**53  # integers that float64 holds


def listed(path: Paths) -> list[Path]:
    """The files of one stream, in their order."""
    return [Path(path)] if isinstance(path, str | Path) else [Path(one) for one in path]


def events_of(tables: Sequence[Columns], roles: Roles, *, bipartite: bool = False, sort: bool = False, smallest_id: int = 0) -> EventStream:
    """Events from the columns that `roles` names, of one file after another.

    Ids become 0..N-1 in the order of the source's ids, which are kept as `node_ids`; `bipartite`: sources and destinations
    are two id spaces, destinations come after the sources. Without a time, it is the place in the file, from 0 on. `sort`: bring
    events into time order (stable). Raises UserError, `file:line: what`, for ids or labels that are no integers, ids below
    `smallest_id`, and, unless `sort`, for time that falls.
    """
    sources, targets = (_joined([_ids(table, roles.index(end), smallest_id) for table in tables]) for end in ("src", "dst"))
    if bipartite:
        (u, user_ids), (v, item_ids) = compact(sources), compact(targets)
        v, node_ids = v + np.int32(user_ids.size), np.concatenate([user_ids, item_ids])
    else:
        both, node_ids = compact(np.concatenate([sources, targets]))
        u, v = both[: sources.size], both[sources.size :]
    time = _time(tables, roles) if "time" in roles else np.arange(sources.size, dtype=np.int64)
    labels = _joined([integers(table, roles.index("label"), "label") for table in tables]) if "label" in roles else None
    wide = places(roles, "weight", "feature")
    features = _joined([table.matrix(wide) for table in tables]) if wide else None
    if (falls := time[1:] < time[:-1]).any():
        if not sort:
            raise _fall(tables, time, int(np.argmax(falls)) + 1, roles.index("time") + 1)
        order = np.argsort(time, kind="stable")
        u, v, time = u[order], v[order], time[order]
        labels = None if labels is None else labels[order]
        features = None if features is None else features[order]
    return EventStream(node_ids.size, u, v, time, features, labels, node_ids, tables[0].path.stem, _account(tables, roles))


def _account(tables: Sequence[Columns], roles: Roles) -> Account:
    account: dict[str, str | list[str]] = {"files": [table.path.name for table in tables], "columns": shortened(roles)}
    if "time" not in roles:
        account["time"] = "the order of the events, from 0 on: no column holds a time"
    return {**account, "dropped": dropped(roles)}


def _time(tables: Sequence[Columns], roles: Roles) -> NDArray[Any]:
    """int64 where every entry is an integer, else float64. Raises UserError where float64 would round one."""
    parts = [table.column(roles.index("time")) for table in tables]
    if len({part.dtype for part in parts}) > 1:
        for table, part in zip(tables, parts, strict=True):
            if part.dtype.kind == "i" and (wide := np.abs(part) > EXACT).any():
                raise table.error(int(np.argmax(wide)), "a time beyond 2**53, and another file has times with fractions")
    return _joined(parts)


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _fall(tables: Sequence[Columns], time: NDArray[Any], row: int, field: int) -> UserError:
    """The error at `row` of all files together."""
    ends = np.cumsum([len(table) for table in tables])
    at = int(np.searchsorted(ends, row, side="right"))
    read = f"field {field} is read as the time; where that is right, the option sort=true sorts the events"
    return tables[at].error(
        row - int(ends[at]) + len(tables[at]), f"time {time[row]} is before the {time[row - 1]} that precedes it; {read}"
    )


def compact(ids: Int64) -> tuple[Int32, Int64]:
    """(positions int32, distinct ids int64 ascending): ids = distinct[positions]. A table where ids are dense, else a sort."""
    top = int(ids.max(initial=0))
    if top < 4 * ids.size + 1024:
        seen = np.zeros(top + 1, dtype=np.bool_)
        seen[ids] = True
        rank = np.cumsum(seen, dtype=np.int64) - 1
        return rank[ids].astype(np.int32), np.flatnonzero(seen).astype(np.int64)
    distinct, positions = np.unique(ids, return_inverse=True)
    if distinct.size > MAX_NODES:
        raise UserError(f"{distinct.size} distinct nodes are more than int32 ids can name")
    return positions.astype(np.int32), distinct


def _ids(columns: Columns, i: int, smallest: int) -> Int64:
    ids = integers(columns, i, "node id")
    if ids.size and ids.min() < smallest:
        row = int(np.argmax(ids < smallest))
        raise columns.error(row, f"node id {ids[row]} is below {smallest}")
    return ids


def integers(columns: Columns, i: int, what: str) -> Int64:
    """A column as int64. Raises UserError at the first entry that is none."""
    numbers = columns.column(i)
    if numbers.dtype == np.int64:
        return numbers
    if (wrong := (numbers != np.floor(numbers)) | (np.abs(numbers) >= EXACT)).any():
        row = int(np.argmax(wrong))
        raise columns.error(row, f"expected an integer {what}, found {numbers[row]}")
    return numbers.astype(np.int64)
