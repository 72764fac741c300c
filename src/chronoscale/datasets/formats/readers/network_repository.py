"""Reader of Network Repository's `.edges`: `src dst weight time` (or `src dst time`), white space or commas, `%` or `#` comments."""

from __future__ import annotations

from dataclasses import replace

from chronoscale.datasets.formats.event_order import Sort, Strict, order_policy
from chronoscale.datasets.formats.tables.edge_list import Bipartite, ColumnRoles, EdgeList
from chronoscale.datasets.formats.tables.lines import first_line
from chronoscale.datasets.formats.tables.stream_builder import Paths, as_paths
from chronoscale.datasets.streams.events import EventStream

TABLE = EdgeList(("src dst _weight time", "src dst time"), comment="%")


def read(
    path: Paths, *, columns: ColumnRoles = None, bipartite: Bipartite = False, sort: Sort = False, strict: Strict = False
) -> EventStream:
    """Read a temporal graph of the Network Repository as an event stream; `bipartite` (the rec-* collection) puts items after users;
    weights are dropped unless `columns` names them.

    `sort`, `strict`: sort events that are not in the order of time without a warning, or refuse them. Raises UserError, `file:line: what`,
    also for the files of this collection that have no time.
    """
    table = replace(TABLE, comment="#") if first_line(as_paths(path)[0]).startswith("#") else TABLE
    return table.read(path, columns, bipartite=bipartite, order=order_policy(sort, strict))
