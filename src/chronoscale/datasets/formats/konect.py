"""KONECT: `out.*`, a `%` line with the kind of graph, then `src dst weight time` with ids from 1."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from chronoscale.datasets.formats.columns import Columns, text_lines
from chronoscale.datasets.formats.timed_edges import Places, events_of
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError


def read(path: str | Path, *, sort: bool = False) -> EventStream:
    """Read a KONECT graph with time. In a bipartite one (`% bip`) right nodes come after the left ones; weights are not kept.

    Raises UserError, `file:line: what`, and where the second comment line promises another number of edges (a truncated file).
    """
    path = Path(path)
    comments = [line.lstrip("% ").split() for line in takewhile(lambda line: line.startswith("%"), text_lines(path))]
    if not comments or not comments[0] or comments[0][0] not in ("sym", "asym", "bip"):
        raise UserError(f"{path}:1: expected '% sym|asym|bip …', the first line of a KONECT graph")
    columns = Columns(path, comment="%")
    columns.expect(4, "src dst weight time")
    if len(comments) > 1 and comments[1] and comments[1][0].isdigit() and int(comments[1][0]) != len(columns):
        raise UserError(f"{path}:2: promises {comments[1][0]} edges, the file has {len(columns)}")
    return events_of(columns, Places(0, 1, 3), bipartite=comments[0][0] == "bip", sort=sort, smallest_id=1)
