"""Reader of JODIE's csv files: `user_id,item_id,timestamp,state_label,features…` under a header line; bipartite."""

from __future__ import annotations

import re
from pathlib import Path

from chronoscale.datasets.formats.event_order import Sort, Strict, order_policy
from chronoscale.datasets.formats.tables.lines import first_line, has_numbers_below
from chronoscale.datasets.formats.tables.stream_builder import Paths, as_paths, read_events
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

HEADER = re.compile(r"user\w*,\s*item\w*,\s*time\w*,\s*\w*label\b")


def matches(path: Path, first: str) -> bool:
    """Return whether a file is one of JODIE's: its first line names a user, an item, a time and a label, and the second has numbers
    there."""
    return HEADER.match(first) is not None and has_numbers_below(path, range(4))


def read(path: Paths, *, sort: Sort = False, strict: Strict = False) -> EventStream:
    """Read a JODIE csv file (wikipedia, reddit, mooc, lastfm) as an event stream, with its features and labels. The stream is bipartite:
    items get ids after the users.

    `sort`, `strict`: sort events that are not in the order of time without a warning, or refuse them. Raises UserError, `file:line: what`.
    """
    tables = []
    for file in as_paths(path):
        if not HEADER.match(first_line(file)):
            raise UserError(f"{file}:1: expected the header 'user_id,item_id,timestamp,state_label,…'")
        table = TextTable(file, separator=",", skip=1)
        number, _ = table.first_line()
        if table.fields < 4:
            raise UserError(f"{file}:{number}: expected user,item,timestamp,state_label,features…, found {table.fields} fields")
        tables.append(table)
        if table.fields != tables[0].fields:
            raise UserError(f"{file}: {table.fields} fields, {tables[0].path} has {tables[0].fields}")
    roles = ("src", "dst", "time", "label", *["feature"] * (tables[0].fields - 4))
    return read_events(tables, roles, bipartite=True, order=order_policy(sort, strict))
