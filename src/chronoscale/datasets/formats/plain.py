"""Plain text: `src dst t` a line, white space or commas between, no header."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets.formats.columns import Columns, first_line
from chronoscale.datasets.formats.timed_edges import Places, events_of
from chronoscale.datasets.streams.events import EventStream


def read(path: str | Path, *, bipartite: bool = False, sort: bool = False) -> EventStream:
    """Read `src dst t`, with ids from 0 or 1 or sparse. Raises UserError, `file:line: what`."""
    first = first_line(Path(path))
    columns = Columns(path, separator="," if "," in first else None)
    columns.expect(3, "src dst t")
    return events_of(columns, Places(0, 1, 2), bipartite=bipartite, sort=sort)
