"""What the text formats of event streams share: columns of ids and times, checked and compacted into an EventStream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chronoscale.datasets.account import Account, shortened
from chronoscale.datasets.arrays import MAX_NODES, release
from chronoscale.datasets.formats.columns import Table
from chronoscale.datasets.formats.gathered import Gathered, compact
from chronoscale.datasets.formats.ordering import Order, Placed
from chronoscale.datasets.formats.roles import Roles, dropped
from chronoscale.datasets.spool import changed
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

Paths = str | Path | Sequence[str | Path]


def listed(path: Paths) -> list[Path]:
    """The files of one stream, in their order."""
    return [Path(path)] if isinstance(path, str | Path) else [Path(one) for one in path]


def events_of(
    tables: Sequence[Table], roles: Roles, *, bipartite: bool = False, order: Order = "told", smallest_id: int = 0
) -> EventStream:
    """Events from the columns that `roles` names, of one file after another. Memory is a block of lines, a table of the ids and, where
    events are sorted, their order; columns beyond a megabyte are mapped from a file without a name.

    Ids become 0..N-1 in the order of the source's ids, which are kept as `node_ids`; `bipartite`: sources and destinations
    are two id spaces, destinations come after the sources. Without a time, it is the place in the file, from 0 on. Raises UserError,
    `file:line: what`, as `Gathered`, and as `order` has it for time that falls.
    """
    return stream_of(Gathered(tables, roles, smallest_id), bipartite=bipartite, order=order)


def stream_of(found: Gathered, *, bipartite: bool = False, order: Order = "told") -> EventStream:
    """As `events_of`, of columns that have been read."""
    if bipartite:
        ((u,), users), ((v,), items) = compact(found.sources), compact(found.targets)
        node_ids = np.concatenate([users, items])
        v = changed(v, lambda block: block + np.int32(users.size), np.int32)
    else:
        (u, v), node_ids = compact(found.sources, found.targets)
    if node_ids.size > MAX_NODES:
        raise UserError(f"{found.tables[0].path}: {node_ids.size} distinct nodes are more than int32 ids can name")
    read = f"; field {found.roles.index('time') + 1} is read as the time" if "time" in found.roles else ""
    placed = Placed(found.time, order, found.error, read)
    u, v, time, features, labels = map(placed.of, (u, v, found.time, found.features, found.labels))
    account = _account(found, placed)
    stream = EventStream(node_ids.size, u, v, time, features, labels, node_ids, found.tables[0].path.stem, account)
    for column in (u, v, time, features, labels):
        release(column)
    return stream


def _account(found: Gathered, placed: Placed) -> Account:
    account: dict[str, str | list[str]] = {"files": [table.path.name for table in found.tables], "columns": shortened(found.roles)}
    if "time" not in found.roles:
        account["time"] = "the order of the events, from 0 on: no column holds a time"
    if placed.said:
        account["order"] = placed.said
    return {**account, "dropped": dropped(found.roles)}
