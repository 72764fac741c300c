"""Reader of the preprocessed data of TGN and DyGLib: `ml_NAME.csv`, beside it features of events in `ml_NAME.npy` and of nodes in
`ml_NAME_node.npy`.

What the files hold: utils/preprocess_data.py of TGN's public code (Rossi et al. 2020); DyGLib (Yu et al. 2023) has the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chronoscale.datasets.account import Account, shorten_columns
from chronoscale.datasets.arrays import require_finite
from chronoscale.datasets.formats.event_order import EventOrder, Sort, Strict, order_policy
from chronoscale.datasets.formats.readers.tgl_folder import read_matrix, with_node_features
from chronoscale.datasets.formats.tables.event_table import EventTable
from chronoscale.datasets.formats.tables.lines import first_line
from chronoscale.datasets.formats.tables.roles import dropped_columns
from chronoscale.datasets.formats.tables.stream_builder import build_stream
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.datasets.spool import take_rows
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

HEADER = ("", "u", "i", "ts", "label", "idx")
ROLES = ("_row", "src", "dst", "time", "label", "id")
PADDING = 1  # rows that come before those of the ids, which begin with 1


def matches(path: Path, first: str) -> bool:
    """Return whether a file's first line is the header of TGN's preprocessed events."""
    return (*map(str.strip, first.split(",")),) == HEADER


def read(path: str | Path, *, sort: Sort = False, strict: Strict = False) -> EventStream:
    """Read TGN's preprocessed events as an event stream, with the features beside them. Ids of nodes and of events begin with 1, and are
    rows of the features, of which row 0 is padding; features of nodes that are all zero, as TGN writes them, are left out.

    `sort`, `strict`: sort events that are not in the order of time without a warning, or refuse them. Raises UserError, `file:line: what`,
    and for features that have no row for an id.
    """
    file = Path(path)
    if not matches(file, first_line(file)):
        raise UserError(f"{file}:1: expected the header '{','.join(HEADER)}'")
    table = TextTable(file, separator=",", skip=1)
    if table.fields != len(HEADER):
        raise UserError(f"{file}:{table.first_line()[0]}: expected {len(HEADER)} fields as in the header, found {table.fields}")
    events = EventTable([table], ROLES, smallest_id=PADDING)
    columns, ids = events.columns, events.columns["id"]
    if (padding := ids < PADDING).any():
        raise events.error(int(np.argmax(padding)), f"event id 0 is below {PADDING}: row 0 of the features is padding")
    events.require_distinct_ids(0, len(events))
    stem = file.name.removesuffix(".gz").removesuffix(".csv")
    files, dropped = [file.name], dropped_columns(ROLES)
    if (beside := file.with_name(f"{stem}.npy")).exists():
        rows = read_matrix(beside)
        if (top := int(ids.max(initial=0))) >= len(rows):
            raise UserError(f"{beside}: {len(rows):,} rows, expected at least {top + 1:,}: one for each event id of {file.name}, and row 0")
        columns["features"] = take_rows(rows, ids, np.float32)
        require_finite(columns["features"], str(beside))
        files.append(beside.name)
    placed = EventOrder(columns["time"], order_policy(sort, strict), events.error, events.timed)
    of_nodes = file.with_name(f"{stem}_node.npy")
    node_rows = read_matrix(of_nodes) if of_nodes.exists() else None
    if node_rows is not None and not node_rows.any():
        node_rows = None
        dropped.append(f"{of_nodes.name}, which is all zeros")
    account: Account = {"files": files, "columns": shorten_columns(ROLES), **placed.account, "dropped": dropped}
    stream = build_stream(file, columns, placed, account)
    return stream if node_rows is None else with_node_features(stream, of_nodes, node_rows)
