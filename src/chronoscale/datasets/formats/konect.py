"""KONECT: `out.*`, a `%` line with the kind of graph, then `src dst weight time` with ids from 1."""

from __future__ import annotations

from itertools import takewhile

from chronoscale.datasets.formats.columns import Columns, text_lines
from chronoscale.datasets.formats.edge_list import ColumnRoles, EdgeList, Sort
from chronoscale.datasets.formats.timed_edges import Paths
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

TABLE = EdgeList(("src dst _weight time",), comment="%", smallest_id=1)


def read(path: Paths, *, columns: ColumnRoles = None, sort: Sort = False) -> EventStream:
    """Read a KONECT graph with time. In a bipartite one (`% bip`) right nodes come after the left ones; weights are not kept unless
    `columns` names them.

    Raises UserError, `file:line: what`, and where the second comment line promises another number of edges (a truncated file).
    """
    tables = TABLE.tables(path)
    kinds = {_kind(table) for table in tables}
    if len(kinds) > 1:
        raise UserError(f"{tables[0].path}: {' and '.join(sorted(kinds))} graphs are no one stream")
    return TABLE.events(tables, columns, bipartite=kinds == {"bip"}, sort=sort)


def _kind(table: Columns) -> str:
    file = table.path
    comments = [line.lstrip("% ").split() for line in takewhile(lambda line: line.startswith("%"), text_lines(file))]
    if not comments or not comments[0] or comments[0][0] not in ("sym", "asym", "bip"):
        raise UserError(f"{file}:1: expected '% sym|asym|bip …', the first line of a KONECT graph")
    if len(comments) > 1 and comments[1] and comments[1][0].isdecimal() and int(comments[1][0]) != len(table):
        raise UserError(f"{file}:2: promises {comments[1][0]} edges, the file has {len(table)}")
    return comments[0][0]
