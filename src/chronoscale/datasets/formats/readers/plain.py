"""Reader of plain text: `src dst time` or `src dst` a line, white space or commas between, no header; or what `columns` says."""

from __future__ import annotations

from typing import Annotated

from chronoscale.datasets.formats.event_order import Sort, Strict, order_policy
from chronoscale.datasets.formats.tables.edge_list import Bipartite, ColumnRoles, EdgeList
from chronoscale.datasets.formats.tables.stream_builder import Paths
from chronoscale.datasets.streams.events import EventStream

TABLE = EdgeList(("src dst", "src dst time"))


def read(
    path: Paths,
    *,
    columns: ColumnRoles = None,
    bipartite: Bipartite = False,
    sort: Sort = False,
    strict: Strict = False,
    skip: Annotated[int, "lines before the data, such as a header"] = 0,
) -> EventStream:
    """Read a text table without a header as an event stream, ids from 0 or 1 or sparse; where no column is a time, the order of the lines
    is it.

    columns: the role of each column (src, dst, time, weight, label, feature; _ skips one). Raises UserError, `file:line: what`, also for
    more than three columns of which `columns` does not say the roles.
    """
    return TABLE.read(path, columns, bipartite=bipartite, order=order_policy(sort, strict), skip=skip)
