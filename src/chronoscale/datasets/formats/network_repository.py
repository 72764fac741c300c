"""Network Repository `.edges`: `src dst weight time` (or `src dst time`), white space or commas, `%` or `#` comments."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets.formats.columns import Columns, first_line, text_lines
from chronoscale.datasets.formats.timed_edges import Places, events_of
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError


def read(path: str | Path, *, bipartite: bool = False, sort: bool = False) -> EventStream:
    """Read a temporal graph; `bipartite` (the rec-* collection) puts items after users; weights are not kept.

    Raises UserError, `file:line: what`, also for the files of this collection that have no time.
    """
    path = Path(path)
    first = first_line(path)
    comment = first[0] if first[:1] in ("%", "#") else "%"
    data = next((line for line in text_lines(path) if not line.startswith(comment) and line.strip()), "")
    columns = Columns(path, separator="," if "," in data else None, comment=comment)
    if columns.fields not in (3, 4):
        raise UserError(f"{path}: expected 'src dst weight time' or 'src dst time', found {columns.fields} fields")
    return events_of(columns, Places(0, 1, columns.fields - 1), bipartite=bipartite, sort=sort)
