"""What the text formats of event streams share: columns of ids and times, checked and compacted into an EventStream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    found = Gathered(tables, roles, smallest_id)
    account: Account = {"files": [table.path.name for table in tables], "columns": shortened(roles)}
    if "time" not in roles:
        account = {**account, "time": "the order of the events, from 0 on: no column holds a time"}
    placed = Placed(found.columns["time"], order, found.error, found.timed)
    return stream_of(tables[0].path, found.columns, placed, {**account, **placed.account, "dropped": dropped(roles)}, bipartite)


def stream_of(path: Path, columns: Mapping[str, NDArray[Any]], placed: Placed, account: Account, bipartite: bool = False) -> EventStream:
    """As `events_of`, of columns that have been read. The stream has the name of the file, or folder. Raises UserError for more nodes than
    int32 can name."""
    if bipartite:
        ((u,), users), ((v,), items) = compact(columns["src"]), compact(columns["dst"])
        node_ids = np.concatenate([users, items])
        v = changed(v, lambda block: block + np.int32(users.size), np.int32)
    else:
        (u, v), node_ids = compact(columns["src"], columns["dst"])
    if node_ids.size > MAX_NODES:
        raise UserError(f"{path}: {node_ids.size} distinct nodes are more than int32 ids can name")
    kept = [u, v, *(columns.get(role) for role in ("time", "features", "label"))]
    u, v, time, features, labels = map(placed.of, kept)
    try:
        stream = EventStream(node_ids.size, u, v, time, features, labels, node_ids, path.stem, account)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    for column in (u, v, time, features, labels):
        release(column)
    return stream
