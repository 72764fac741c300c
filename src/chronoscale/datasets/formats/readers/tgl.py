"""Reader of TGL's datasets: a folder, or its `edges.csv` alone: a header that names src, dst and time beside a column of TGL's own; ids are
already one space.

What the files hold: TGL's README, gen_graph.py and train.py (Zhou et al., VLDB 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chronoscale.datasets.account import Account, shorten_columns
from chronoscale.datasets.formats.event_order import EventOrder, OrderPolicy, Sort, Strict, order_policy
from chronoscale.datasets.formats.readers import tgl_folder
from chronoscale.datasets.formats.tables.event_table import EventTable
from chronoscale.datasets.formats.tables.lines import first_line, has_numbers_below
from chronoscale.datasets.formats.tables.roles import Roles, dropped_columns
from chronoscale.datasets.formats.tables.stream_builder import Paths, as_paths, build_stream
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.datasets.spool import BLOCK
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

HEADER = {"src", "dst", "time"}
ROLES = {"": "id", "Unnamed: 0": "id", "ext_roll": "split"}  # the first is the number of the row, as pandas writes it
PARTS = {0: "to train", 1: "to validate", 2: "to test"}


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder of a TGL dataset: with TGL's edges.csv or ext_full.npz in it, and no meta.json of this package."""
    here = path / tgl_folder.EDGES, path / tgl_folder.GRAPH
    return path.is_dir() and not (path / "meta.json").exists() and any(file.exists() for file in here)


def matches(path: Path, first: str) -> bool:
    """Return whether a path is a TGL dataset: a folder with TGL's files, or a csv whose first line names src, dst, time and a column of
    TGL's own and whose second has numbers there. Without such a column it may be anybody's table."""
    names = [*map(str.strip, first.split(","))]
    if is_folder(path) or not {*names} >= HEADER:
        return is_folder(path)
    return bool({*ROLES} & {*names}) and has_numbers_below(path, [names.index(name) for name in HEADER])


def read(path: Paths, *, sort: Sort = False, strict: Strict = False) -> EventStream:
    """Read TGL's dataset folder, or its edge lists, as an event stream. Of a folder: `edges.csv`, or without it `ext_full.npz` where every
    event stands in it once; `edge_features` and `node_features` (.pt or .npy), `labels.csv` where it has one label an event. Its split
    (`ext_roll`) goes into the account, and columns of other names are not read.

    Raises UserError, `file:line: what`, and where files of a folder do not fit one another, or an event id stands twice.
    """
    files, order = as_paths(path), order_policy(sort, strict)
    if len(files) == 1 and files[0].is_dir():
        return _read_folder(files[0], order)
    table = _read_edges(files)
    placed = EventOrder(table.columns["time"], order, table.error, table.timed)
    return build_stream(
        files[0], table.columns, placed, {"files": [file.name for file in files], **_describe_columns(table), **placed.account}
    )


def _read_folder(folder: Path, order: OrderPolicy) -> EventStream:
    edges, graph = folder / tgl_folder.EDGES, folder / tgl_folder.GRAPH
    account: Account
    if edges.exists():
        table = _read_edges([edges])
        columns, files = table.columns, [edges.name]
        placed = EventOrder(columns["time"], order, table.error, table.timed)
        account = _describe_columns(table)
        if graph.exists():
            tgl_folder.check_graph(graph, len(table), int(max(columns["src"].max(), columns["dst"].max())) + 1)
            account = {**account, "dropped": [*account["dropped"], f"{graph.name}, but for its number of events"]}
    else:
        columns, files = tgl_folder.read_graph(graph), [graph.name]
        placed = EventOrder(columns["time"], order, lambda event, problem: UserError(f"{graph}: event {event}: {problem}"))
        account = {"columns": ["indptr", "indices", "ts", "eid"], "dropped": []}
    if features := tgl_folder.read_edge_features(folder, columns):
        columns["features"] = features[1]
        files.append(features[0].name)
    if (folder / tgl_folder.LABELS).exists():
        files.append(tgl_folder.LABELS)
        account = {**account, "labels": tgl_folder.add_labels(folder / tgl_folder.LABELS, columns)}
    stream = build_stream(folder, columns, placed, {"files": files, **account, **placed.account})
    return tgl_folder.add_node_features(folder, stream)


def _read_edges(files: Sequence[Path]) -> EventTable:
    headers = {file: tuple(name.strip() for name in first_line(file).split(",")) for file in files}
    for file, header in headers.items():
        if not {*header} >= HEADER or any(header.count(name) > 1 for name in (*HEADER, *ROLES)):
            raise UserError(f"{file}:1: expected a header with src, dst and time, found '{','.join(header)[:60]}'")
        if header != headers[files[0]]:
            raise UserError(f"{file}:1: another header than {files[0]} has")
    tables = [TextTable(file, separator=",", skip=1) for file in files]
    header = headers[files[0]]
    for table in tables:
        if table.fields != len(header):
            raise UserError(f"{table.path}:{table.first_line()[0]}: expected {len(header)} fields as in the header, found {table.fields}")
    names = (name if place == 0 or name else f"_{name}" for place, name in enumerate(header))
    roles: Roles = tuple(name if name in HEADER else ROLES.get(name, f"_{name}") for name in names)
    events, begin = EventTable(tables, roles), 0
    for table in tables:
        if "id" in roles:
            events.require_distinct_ids(begin, begin + table.rows)
        begin += table.rows
    return events


def _describe_columns(table: EventTable) -> dict[str, str | list[str]]:
    account: dict[str, str | list[str]] = {"columns": shorten_columns(table.roles)}
    if (split := table.columns.get("split")) is not None:
        parts: dict[int, int] = {}
        ascends = True
        for begin in range(0, len(split), BLOCK):
            part = split[begin : begin + BLOCK + 1]
            ascends &= bool((part[1:] >= part[:-1]).all())
            for value, count in zip(*np.unique(part[:BLOCK], return_counts=True), strict=True):
                parts[int(value)] = parts.get(int(value), 0) + int(count)
        counts = ", ".join(f"{count:,} {PARTS.get(value, f'of ext_roll {value}')}" for value, count in sorted(parts.items()))
        account["split"] = f"{counts} ({'in this order' if ascends else 'mixed'}): read, and not used"
        if ascends and parts.keys() == PARTS.keys():
            account["split"] = (
                f"{account['split']}; training.split: [{parts[0] / len(split):.6g}, {parts[1] / len(split):.6g}] has its shares"
            )
    return {**account, "dropped": dropped_columns(table.roles)}
