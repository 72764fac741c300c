"""Events of a table with a header: its columns become an event stream whose nodes keep their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Float32, Int64
from chronoscale.datasets.formats.event_order import EventOrder, OrderPolicy
from chronoscale.datasets.formats.headed.account import describe_columns
from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.headed_table import HeadedTable
from chronoscale.datasets.formats.headed.names import has_integer_ids, number_names
from chronoscale.datasets.formats.headed.roles import EventRoles
from chronoscale.datasets.formats.headed.times import TimeOptions, Times, looks_like_dates, read_times
from chronoscale.datasets.formats.plausibility import ENDS, EventColumn, require_plausible_events
from chronoscale.datasets.formats.question import Answer, Question
from chronoscale.datasets.formats.tables.stream_builder import build_stream
from chronoscale.datasets.node_names import Names
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

CLASSES = 50  # of labels that are text, at most


def build_events(table: HeadedTable, roles: EventRoles, options: TimeOptions, apart: bool | None, order: OrderPolicy) -> EventStream:
    """Build an event stream from the columns of a table that `roles` chooses.

    Ids become 0..N-1 in their order; they are kept as `node_ids` where all are integers from 0 on, else as `node_names`. apart: sources and
    destinations are two kinds of nodes, and destinations come after the sources; None: as the names of their columns say. Without a column
    of times these are the places of the rows. order: what to do with events out of the order of time. Raises Question for what is
    implausible where no options name the columns, and UserError, with its place, for an entry that is not what its column has.
    """
    path, apart = table.paths[0], roles.apart if apart is None else apart
    if not roles.named:
        _require_ids(table, roles)
    times = None if roles.time is None else read_times(path, roles.time, options)
    columns: dict[str, NDArray[Any]] = {}
    columns["src"], columns["dst"], names = _number_ends(roles, apart)
    columns["time"] = np.arange(table.rows, dtype=np.int64) if times is None else times.stored
    if not roles.named:
        _require_plausible(table, roles, times, columns, order == "sort")
    account: dict[str, str | list[str]] = {**describe_columns(table, "events", _roles_by_column(roles)), "nodes": _nodes(roles, apart)}
    account["time"] = "the order of the rows, from 0 on: no column holds a time" if times is None else times.sentence
    if roles.label is not None:
        columns["label"], account["labels"] = _read_labels(roles.label)
    wide = [column for column in (roles.weight, *roles.features) if column is not None]
    if wide:
        columns["features"] = _read_features(wide)
    read = "" if roles.time is None else f"; {roles.time.label} is read as the time"
    placed = EventOrder(columns["time"], order, table.row_error, read)
    stream = build_stream(path, columns, placed, {**account, **placed.account}, bipartite=apart and names is None)
    return replace(stream, name=table.stem) if names is None else replace(stream, name=table.stem, node_ids=None, node_names=names)


def _number_ends(roles: EventRoles, apart: bool) -> tuple[Int64, Int64, Names | None]:
    """Return the ids of sources and destinations, int64 [M], and the names for which ids are numbers in their order; None: integer ids."""
    if has_integer_ids(roles.src) and has_integer_ids(roles.dst):
        return roles.src.integers("node"), roles.dst.integers("node"), None
    numbered = number_names((roles.src, roles.dst), "node", apart)
    src, dst = numbered.columns
    return src, dst, numbered.names


def _read_labels(column: Column) -> tuple[Int64, str]:
    """Return labels, int64 [M], and a sentence on them; labels that are text are numbered in their order."""
    if column.is_numeric:
        return column.integers("label"), f"from {column.label}"
    column.require_all("label")
    numbered = number_names((column,), "label")
    if len(numbered.names) > CLASSES:
        raise UserError(f"{column.label}: {len(numbered.names):,} different labels of text, expected {CLASSES} at most")
    return numbered.columns[0], ", ".join(f"{number} is '{name}'" for number, name in enumerate(numbered.names))


def _read_features(columns: Sequence[Column]) -> Float32:
    """Return features of events, float32 [M, D]. Raises UserError, with its place, for a number that is missing or float32 cannot hold."""
    features = np.empty((len(columns[0].data), len(columns)), np.float32)
    for at, column in enumerate(columns):
        column.require_all("number")
        with np.errstate(over="ignore"):
            features[:, at] = column.numbers()
        if np.isinf(features[:, at]).any():
            raise column.row_error(int(np.argmax(np.isinf(features[:, at]))), f"{column.label}: a number beyond the range of float32")
    return features


def _require_ids(table: HeadedTable, roles: EventRoles) -> None:
    """Check that columns of ids, which nobody has named, hold neither fractions nor dates. Raises Question."""
    for role, column, other in (("src", roles.src, roles.dst), ("dst", roles.dst, roles.src)):
        begin = f"{column.label}, which is read as the {ENDS[role]}, holds"
        if looks_like_dates(column):
            swapped = [one.option for one in table.columns if one in (other, roles.time)]
            answer = Answer(f"{column.label} is the time", dict(zip(("src", "dst"), swapped, strict=False)) | {"time": column.option})
            raise Question(table.paths[0], f"{begin} dates such as {column.entry(0)}", answer, *_meant(roles))
        if column.kind == "number" and not column.has_whole_fractions:
            numbers = column.numbers()
            example = column.entry(int(np.argmax(numbers != np.floor(numbers))))
            raise Question(
                table.paths[0], f"{begin} fractions such as {example}, which ids do not", *_other_ids(table, roles), *_meant(roles)
            )


def _meant(roles: EventRoles) -> list[Answer]:
    chosen = {role: column for role, column in (("src", roles.src), ("dst", roles.dst), ("time", roles.time)) if column is not None}
    return [Answer("that is meant: entries are names", {role: column.option for role, column in chosen.items()})]


def _other_ids(table: HeadedTable, roles: EventRoles) -> list[Answer]:
    ids = [column for column in table.columns if column.kind in ("integer", "text") and column is not roles.time]
    if len(ids) < 2:
        return []
    time = {} if roles.time is None else {"time": roles.time.option}
    return [Answer("these are the ids", {"src": ids[0].option, "dst": ids[1].option, **time})]


def _require_plausible(
    table: HeadedTable, roles: EventRoles, times: Times | None, columns: Mapping[str, NDArray[Any]], sorts: bool
) -> None:
    chosen = {"src": roles.src, "dst": roles.dst, **({} if times is None or roles.time is None else {"time": roles.time})}
    shown = {role: EventColumn(column.place - 1, column.label, columns[role], column.entry(0)) for role, column in chosen.items()}

    options = {column.place - 1: column.option for column in table.columns}

    def spell(choice: Mapping[str, int]) -> dict[str, str]:
        return {role: options[place] for role, place in choice.items()}

    require_plausible_events(table.paths[0], shown, spell, sorts)


def _roles_by_column(roles: EventRoles) -> dict[int, str]:
    named = {"src": roles.src, "dst": roles.dst, "time": roles.time, "label": roles.label, "weight": roles.weight}
    return {column.place: role for role, column in named.items() if column is not None} | {one.place: "feature" for one in roles.features}


def _nodes(roles: EventRoles, apart: bool) -> str:
    kind = "by id" if has_integer_ids(roles.src) and has_integer_ids(roles.dst) else "by name"
    if apart:
        return f"{kind}, of two kinds: '{roles.src.option}', and after them '{roles.dst.option}'"
    return f"{kind}, of one kind in '{roles.src.option}' and '{roles.dst.option}'"
