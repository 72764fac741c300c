"""Reader of SNAP's temporal networks: `.txt` or `.txt.gz`, `#` comments, `src dst unix_time` a line."""

from __future__ import annotations

from itertools import takewhile

from chronoscale.datasets.formats.event_order import Sort, Strict, order_policy
from chronoscale.datasets.formats.tables.edge_list import ColumnRoles, EdgeList
from chronoscale.datasets.formats.tables.lines import text_lines
from chronoscale.datasets.formats.tables.stream_builder import Paths, as_paths
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

TABLE = EdgeList(("src dst time",), comment="#")
TIMES = ("t", "time", "timestamp", "unixts", "date", "datetime", "unixtime", "unix_time")


def read(path: Paths, *, columns: ColumnRoles = None, sort: Sort = False, strict: Strict = False) -> EventStream:
    """Read a file of SNAP's temporal networks (sx-stackoverflow, wiki-talk-temporal) as an event stream.

    Raises UserError, `file:line: what`, also where the comment above the data names a third column that is no time, as in SNAP's signed
    networks (`# FromNodeId ToNodeId Sign`).
    """
    for file in as_paths(path) if columns is None else ():
        comments = [line.lstrip("# ").split() for line in takewhile(lambda line: line.startswith("#"), text_lines(file))]
        names = next((words for words in reversed(comments) if words), [])
        if len(names) == 3 and names[0].lower().startswith(("from", "src", "source")) and names[2].lower() not in TIMES:
            meant = f"columns=src,dst,{'weight' if names[2].lower() in ('weight', 'sign', 'rating') else 'feature'}"
            raise UserError(f"{file}:{len(comments)}: the third column is '{names[2]}', not a time; say what it is, as in {meant}")
    return TABLE.read(path, columns, order=order_policy(sort, strict))
