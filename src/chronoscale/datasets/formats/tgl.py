"""TGL `edges.csv`: a header that names src, dst and time among its columns; ids are already one space."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets.formats.columns import Columns, first_line
from chronoscale.datasets.formats.timed_edges import Places, events_of
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

HEADER = {"src", "dst", "time"}


def read(path: str | Path, *, sort: bool = False) -> EventStream:
    """Read TGL's edge list. Its features (`edge_features.pt`) and its split (`ext_roll`) are not read.

    Raises UserError, `file:line: what`.
    """
    path = Path(path)
    header = first_line(path).strip().split(",")
    if not set(header) >= HEADER:
        raise UserError(f"{path}:1: expected a header with src, dst and time, found '{','.join(header)[:60]}'")
    columns = Columns(path, separator=",", skip=1)
    columns.expect(len(header), f"{len(header)} fields as in the header")
    return events_of(columns, Places(*map(header.index, ("src", "dst", "time"))), sort=sort)
