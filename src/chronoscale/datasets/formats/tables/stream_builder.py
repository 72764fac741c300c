"""Stream builder: columns of ids and times from text files, checked and compacted into an EventStream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.account import Account, shorten_columns
from chronoscale.datasets.arrays import MAX_NODES, release
from chronoscale.datasets.formats.event_order import EventOrder, OrderPolicy
from chronoscale.datasets.formats.tables.event_table import EventTable, compact_ids
from chronoscale.datasets.formats.tables.roles import Roles, dropped_columns
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.datasets.spool import map_rows
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.unpacking import name_unpacked
from chronoscale.errors import UserError

Paths = str | Path | Sequence[str | Path]


def as_paths(path: Paths) -> list[Path]:
    """Return the files of one dataset as a list of paths, from one path or several, in their order."""
    return [Path(path)] if isinstance(path, str | Path) else [Path(file) for file in path]


def read_events(
    tables: Sequence[TextTable],
    roles: Roles,
    *,
    bipartite: bool = False,
    order: OrderPolicy = "warn",
    smallest_id: int = 0,
    check: Callable[[EventTable], None] = lambda table: None,
) -> EventStream:
    """Read an event stream from a dataset's text tables, one after another; `roles` are those of their columns. Memory is a block of lines,
    a table of the ids and, where events are sorted, their order; columns beyond a megabyte are mapped from a file without a name.

    Ids become 0..N-1 in the order of the source's ids, which become `node_ids`; `bipartite`: sources and destinations are two id spaces,
    destinations come after the sources. Without a time, it is the place in the file, from 0 on. order: what to do with events out of the
    order of time. check: is given the columns before they are sorted, to refuse them. Raises UserError, `file:line: what`, as `EventTable`,
    and for events out of order where `order` is "refuse".
    """
    event_table = EventTable(tables, roles, smallest_id)
    check(event_table)
    account: Account = {"files": [table.path.name for table in tables], "columns": shorten_columns(roles)}
    if "time" not in roles:
        account = {**account, "time": "the order of the events, from 0 on: no column holds a time"}
    placed = EventOrder(event_table.columns["time"], order, event_table.error, event_table.timed)
    return build_stream(
        tables[0].path, event_table.columns, placed, {**account, **placed.account, "dropped": dropped_columns(roles)}, bipartite
    )


def build_stream(
    path: Path, columns: Mapping[str, NDArray[Any]], placed: EventOrder, account: Account, bipartite: bool = False
) -> EventStream:
    """Build an event stream from the columns that a dataset reader has read (src, dst, time and, if present, features and label): ids are
    renumbered, events sorted into the order `placed`. The stream has the name of the file or folder `path`.

    `bipartite`: sources and destinations are two id spaces. Raises UserError for more nodes than int32 can name.
    """
    if bipartite:
        ((u,), users), ((v,), items) = compact_ids(columns["src"]), compact_ids(columns["dst"])
        node_ids = np.concatenate([users, items])
        v = map_rows(v, lambda block: block + np.int32(users.size), np.int32)
    else:
        (u, v), node_ids = compact_ids(columns["src"], columns["dst"])
    if node_ids.size > MAX_NODES:
        raise UserError(f"{path}: {node_ids.size} distinct nodes are more than int32 ids can name")
    unsorted = [u, v, *(columns.get(role) for role in ("time", "features", "label"))]
    u, v, time, features, labels = map(placed.sort, unsorted)
    try:
        stream = EventStream(node_ids.size, u, v, time, features, labels, node_ids, Path(name_unpacked(path)).stem, account)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    for column in (u, v, time, features, labels):
        release(column)
    return stream
