"""Reader of KONECT graphs: `out.*`, a `%` line with the kind of graph, then `src dst weight time` with ids from 1."""

from __future__ import annotations

from itertools import takewhile

from chronoscale.datasets.formats.event_order import Sort, Strict, order_policy
from chronoscale.datasets.formats.tables.edge_list import ColumnRoles, EdgeList
from chronoscale.datasets.formats.tables.lines import text_lines
from chronoscale.datasets.formats.tables.stream_builder import Paths
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

TABLE = EdgeList(("src dst _weight time",), comment="%", smallest_id=1)


def read(path: Paths, *, columns: ColumnRoles = None, sort: Sort = False, strict: Strict = False) -> EventStream:
    """Read a KONECT graph with times as an event stream. In a bipartite one (`% bip`) right nodes come after the left ones; weights are
    dropped unless `columns` names them.

    `sort`, `strict`: sort events that are not in the order of time without a warning, or refuse them. Raises UserError, `file:line: what`,
    and where the second comment line promises another number of edges (a truncated file).
    """
    tables = TABLE.tables(path)
    heads = [_head(table) for table in tables]
    kinds = {head[0][0] for head in heads}
    if len(kinds) > 1:
        raise UserError(f"{tables[0].path}: {' and '.join(sorted(kinds))} graphs are no one stream")
    for table, head in zip(tables, heads, strict=True):
        if len(head) > 1 and head[1] and head[1][0].isdecimal():
            table.promised = int(head[1][0])
    return TABLE.events(tables, columns, bipartite=kinds == {"bip"}, order=order_policy(sort, strict))


def _head(table: TextTable) -> list[list[str]]:
    """Return words of the lines before the data."""
    comments = [line.lstrip("% ").split() for line in takewhile(lambda line: line.startswith("%"), text_lines(table.path))]
    if not comments or not comments[0] or comments[0][0] not in ("sym", "asym", "bip"):
        raise UserError(f"{table.path}:1: expected '% sym|asym|bip …', the first line of a KONECT graph")
    return comments
