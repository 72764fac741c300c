"""TGL `edges.csv`: a header that names src, dst and time among its columns; ids are already one space."""

from __future__ import annotations

from chronoscale.datasets.formats.columns import Table
from chronoscale.datasets.formats.lines import first_line
from chronoscale.datasets.formats.ordering import Sort, Strict, order_of
from chronoscale.datasets.formats.timed_edges import Paths, events_of, listed
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

HEADER = {"src", "dst", "time"}


def read(path: Paths, *, sort: Sort = False, strict: Strict = False) -> EventStream:
    """Read TGL's edge list. Its features (`edge_features.pt`), its split (`ext_roll`) and columns of other names are not read.

    Raises UserError, `file:line: what`.
    """
    files = listed(path)
    headers = {file: tuple(name.strip() for name in first_line(file).split(",")) for file in files}
    for file, header in headers.items():
        if not {*header} >= HEADER or any(header.count(name) > 1 for name in HEADER):
            raise UserError(f"{file}:1: expected a header with src, dst and time, found '{','.join(header)[:60]}'")
        if header != headers[files[0]]:
            raise UserError(f"{file}:1: another header than {files[0]} has")
    tables = [Table(file, separator=",", skip=1) for file in files]
    header = headers[files[0]]
    for table in tables:
        if table.fields != len(header):
            raise UserError(f"{table.path}:{table.first_line()[0]}: expected {len(header)} fields as in the header, found {table.fields}")
    return events_of(tables, tuple(name if name in HEADER else f"_{name}" for name in header), order=order_of(sort, strict))
